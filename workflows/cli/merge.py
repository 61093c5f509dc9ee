"""`argosy merge`: several checkpoints of one line as one, which other commands take."""

import argparse
from pathlib import Path

from argosy.core.errors import InputError
from steps.merge import METHODS
from workflows.cli.command import Command, add_store, as_typed
from workflows.stored.last_run import line_of_model, model_directory


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("checkpoints", metavar="CHECKPOINT", nargs="+",
                        help="checkpoints' names, or directories; the line of the first goes on")
    parser.add_argument("--by", choices=METHODS, default="average",
                        help="their mean (default); along the arc between two; their largest changes of --base")
    parser.add_argument("--weights", type=float, nargs="+", metavar="W", help="of each (default: the same)")
    parser.add_argument("--base", metavar="CHECKPOINT", help="the model that all were trained from, of ties")
    parser.add_argument("--density", type=float, metavar="SHARE",
                        help="share of a tensor's changes that ties keeps (default: 0.2)")
    add_store(parser)


def run(args: argparse.Namespace) -> int:
    """Merge, and say where the checkpoint is."""
    from argosy.model.weights.checkpoint import find_checkpoint
    from workflows.local.runner import run_single

    if len(args.checkpoints) < 2:
        raise InputError("merge takes two checkpoints or more: name another")
    paths = [model_directory(args.store, name).absolute() for name in args.checkpoints]
    found = find_checkpoint(paths[0])
    config = {"checkpoint": str(paths[0]), "others": [str(path) for path in paths[1:]], "method": args.by,
              "of": args.checkpoints, "weights": args.weights or [], "stage": f"{found.stage or found.name}-{args.by}"}
    if args.base:
        config["base"] = str(model_directory(args.store, args.base).absolute())
    if args.density is not None:
        config["density"] = args.density
    with as_typed({"base_of": "--base", "method=": "--by ", "method is": "--by is", "weights": "--weights",
                   "density": "--density", "of has": "merge takes"}):
        header = {"line": line_of_model(args.store, paths[0]), "title": f"merge-{config['stage']}"}
        print(Path(run_single("merge", config, args.store, header)))
    return 0


COMMAND = Command("merge", "the mean of checkpoints, or SLERP or TIES, taken like any other", 63, configure, run)
