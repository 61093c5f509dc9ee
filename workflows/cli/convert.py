"""`argosy convert`: a checkpoint's weights in the layout of another trainer, or back."""

import argparse
import sys
from pathlib import Path

from argosy.core.errors import InputError
from workflows.cli.command import Command, add_store, positive

FORMATS = ("megatron", "torchtitan", "hf")


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("checkpoint", metavar="CHECKPOINT", help="a checkpoint's name, or a directory of any layout")
    parser.add_argument("--to", required=True, choices=FORMATS, help="layout to write; hf is transformers'")
    parser.add_argument("--out", required=True, type=Path, metavar="DIR", help="directory to make")
    parser.add_argument("--tensor", type=positive, default=1, metavar="N",
                        help="with --to megatron: tensor-parallel ranks (default: 1)")
    parser.add_argument("--like", type=Path, metavar="DIR",
                        help="directory with the model's config.json and tokenizer (default: CHECKPOINT's own)")
    add_store(parser)


def run(args: argparse.Namespace) -> int:
    """Convert, and say what was written. Raises InputError: the model or the layout is not one that can be."""
    if args.tensor > 1 and args.to != "megatron":
        raise InputError(f"--tensor is {args.tensor}, and --to {args.to} has no shards: leave it out, or give "
                         "--to megatron")
    from argosy.model.weights.formats.files import convert

    source = _directory(args)
    shape = convert(source, args.to, args.out.expanduser().absolute(), tensor=args.tensor, like=args.like)
    print(f"{args.out}: {shape.kind} of {shape.layers} layers as {args.to}, from {source}", file=sys.stderr)
    return 0


def _directory(args: argparse.Namespace) -> Path:
    """Find the directory of the weights: of another trainer as it is, else as every command finds a checkpoint."""
    from argosy.model.weights.checkpoint import find_checkpoint
    from workflows.stored.last_run import model_directory, node_of

    given = Path(args.checkpoint).expanduser()
    ours = any((given / name).is_file() for name in ("config.json", "outputs.json"))
    if given.is_dir() and not ours and not node_of(args.store, args.checkpoint):
        return given
    return find_checkpoint(model_directory(args.store, args.checkpoint)).path


COMMAND = Command("convert", "a checkpoint in the layout of Megatron-Core or torchtitan, or back", 64, configure, run)
