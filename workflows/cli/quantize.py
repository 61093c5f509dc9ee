"""`argosy quantize`: a checkpoint's linear layers in 8 or 4 bits, as a checkpoint that other commands take."""

import argparse
import os
from pathlib import Path

from argosy.core.errors import InputError
from argosy.model.weights.quantize import GROUPS, METHODS
from workflows.cli.command import Command, add_store, as_typed, positive
from workflows.stored.last_run import directory_of, line_of_model, model_directory, node_of


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("checkpoint", metavar="CHECKPOINT", help="a checkpoint's name, or a directory")
    parser.add_argument("--to", required=True, choices=METHODS, help="awq: int4 after a search on calibration text")
    parser.add_argument("--group-size", type=int, choices=GROUPS, metavar="N",
                        help="inputs that share a scale, of int4 and awq: 128, 64 or 32 (default: the most that fit)")
    parser.add_argument("--tokens", type=Path, metavar="DIR", help="a tokenize step's directory, whose held-out "
                        "documents awq is calibrated on (default: the last run's)")
    parser.add_argument("--threads", type=positive, default=os.cpu_count() or 1, metavar="N",
                        help="threads of torch (default: all cores)")
    add_store(parser)


def run(args: argparse.Namespace) -> int:
    """Quantize, and say where the checkpoint is."""
    from argosy.core.store.step_files import read_outputs
    from argosy.model.weights.checkpoint import find_checkpoint
    from workflows.local.runner import run_single

    if args.tokens and args.to != "awq":
        raise InputError(f"--tokens is {args.tokens}, and {args.to} needs no calibration text: leave it out")
    directory = model_directory(args.store, args.checkpoint).absolute()
    found = find_checkpoint(directory)
    config = {"checkpoint": str(directory), "method": args.to, "group_size": args.group_size,
              "threads": args.threads, "stage": f"{found.stage or found.name}-{args.to}"}
    if args.to == "awq":
        config["tokenized"] = str(_tokens(args).absolute())
    with as_typed({"group_size": "--group-size", "method=": "--to ", "method is": "--to is", "tokenized": "--tokens"}):
        header = {"line": line_of_model(args.store, directory), "title": f"quantize-{config['stage']}"}
        out = run_single("quantize", config, args.store, header)
    outputs = read_outputs(out)
    print(f"{outputs['bytes_before'] / 1e6:,.1f} MB before, {outputs['bytes'] / 1e6:,.1f} MB now: {out}")
    return 0


def _tokens(args: argparse.Namespace) -> Path:
    if args.tokens is not None:
        return Path(args.tokens)
    if not node_of(args.store, "tokenize"):
        raise InputError("--to awq is calibrated on the held-out documents of a tokenize step, and the store has "
                         "none: name one with --tokens, or take --to int4")
    return directory_of(args.store, "tokenize")


COMMAND = Command("quantize", "a checkpoint in 8 or 4 bits, taken like any other", 64, configure, run)
