"""`argosy export`: a checkpoint as ONNX or GGUF, or for the Hugging Face hub with a model card, whole or an adapter."""

import argparse
import shutil
from pathlib import Path
from typing import Any

from argosy.core.errors import InputError
from argosy.model.weights.exports import EXPORTS
from workflows.cli.command import Command, add_store, as_typed
from workflows.stored.last_run import line_of_model, model_directory


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("checkpoint", metavar="CHECKPOINT", help="a checkpoint's name, or a directory")
    parser.add_argument("--to", required=True, metavar="FORMAT", help="onnx, gguf, hub or adapter")
    parser.add_argument("--out", type=Path, metavar="DIR", help="directory to make (default: in the store)")
    parser.add_argument("--dtype", default="", metavar="DTYPE", help="precision of the weights (default: float32 for "
                        "onnx, bfloat16 for gguf, the checkpoint's for hub)")
    parser.add_argument("--licence", default="", metavar="ID", help="licence of the model, for its card")
    parser.add_argument("--base", default="", metavar="ORG/NAME", help="of an adapter: what the hub calls its base "
                        "(default: its directory)")
    parser.add_argument("--push", default="", metavar="ORG/NAME", help="send it to the hub, as a private repository")
    add_store(parser)


def run(args: argparse.Namespace) -> int:
    """Export, and say where it is."""
    from argosy.model.weights.exports.hub import push
    from workflows.local.runner import run_single

    EXPORTS.pick(args.to)
    for option in ("push", "licence"):
        if getattr(args, option) and not EXPORTS[args.to].card:
            raise InputError(f"--{option} is of --to hub and adapter, and --to is {args.to}: leave it out")
    if args.out and args.out.exists() and (not args.out.is_dir() or any(args.out.iterdir())):
        raise InputError(f"--out {args.out} is there already: name a directory that is new or empty")
    config = _config(args)
    with as_typed({"dtype": "--dtype", "licence": "--licence"}):
        header = {"line": line_of_model(args.store, Path(config["checkpoint"])), "title": f"export-{args.to}"}
        out = run_single("export", config, args.store, header) / args.to
    if args.out:
        out = Path(shutil.copytree(out, args.out, dirs_exist_ok=True))
    print(push(out, args.push) if args.push else out)
    return 0


def _config(args: argparse.Namespace) -> dict[str, Any]:
    """Name the checkpoint, and what the store has of its data and evaluations where a card is made."""
    from argosy.core.tracking.tracker import checkpoint_key
    from argosy.model.weights.checkpoint import find_checkpoint
    from workflows.stored.lineage import Lineage, step_directory
    from workflows.stored.store import Stored

    directory = model_directory(args.store, args.checkpoint).absolute()
    config: dict[str, Any] = {"checkpoint": str(directory), "formats": [args.to], "dtype": args.dtype,
                              "licence": args.licence, "base": args.base}
    if not EXPORTS[args.to].card:
        return config
    found = Stored(args.store).by_key(checkpoint_key(find_checkpoint(directory).path))
    config["evaluations"] = [str(each.absolute()) for each in found.evaluations] if found else []
    try:
        lineage = Lineage(args.store).of(step_directory(directory))
    except InputError:
        return config  # a model from elsewhere
    clean = next((each for each in lineage.every() if each.made_from["step"] == "clean"), None)
    scored = clean.upstream["scored"] if clean else []
    if clean and not any(isinstance(each, str) for each in scored):
        config |= {"clean": str(clean.directory.absolute()),
                   "scored": [str(each.directory.absolute()) for each in scored if not isinstance(each, str)]}
    return config


COMMAND = Command("export", "a checkpoint as ONNX or GGUF, or with a model card for the hub", 64, configure, run)
