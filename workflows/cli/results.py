"""`argosy results`: results in the files of lm-eval, lighteval and Inspect; and theirs as results of the store."""

import argparse
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from argosy.core.errors import InputError
from workflows.cli.command import Command, add_store, user_path

FORMATS = ("lm-eval", "lighteval", "inspect")


def configure(parser: argparse.ArgumentParser) -> None:
    commands = parser.add_subparsers(dest="what", required=True, metavar="WHAT")
    out = commands.add_parser("export", help="write a checkpoint's results as files of another harness")
    out.add_argument("checkpoint", metavar="CHECKPOINT", help="as 'argosy compare' names it")
    out.add_argument("--as", dest="as_", required=True, choices=FORMATS, help="whose files")
    out.add_argument("--out", required=True, type=user_path, metavar="DIR", help="folder of the files")
    add_store(out)
    into = commands.add_parser("import", help="read results of lm-eval or lighteval into the store")
    into.add_argument("files", nargs="+", type=user_path, metavar="FILE|DIR", help="results_*.json, or their folder")
    whose = into.add_mutually_exclusive_group()
    whose.add_argument("--name", default="", help="name of the model, in comparisons import:NAME (default: theirs)")
    whose.add_argument("--checkpoint", default="", help="checkpoint of the store whose results they are")
    into.add_argument("--form", default="", help="name of the form in which they asked (default: the harness's)")
    into.add_argument("--task", action="append", default=[], metavar="THEIRS=OURS",
                      help="name of a task here; may be repeated")
    add_store(into)


def run(args: argparse.Namespace) -> int:
    """Export or import, and say what was written. Raises InputError: a file or a checkpoint cannot be read."""
    return _export(args) if args.what == "export" else _import(args)


def _export(args: argparse.Namespace) -> int:
    from evals.exchange import Exported, inspect_logs, lighteval_files, lm_eval_files
    from steps.compare import question_texts
    from workflows.stored.names import Names

    if args.out.is_file():
        raise InputError(f"--out {args.out} is a file; allowed: a folder, there already or to be made")
    (entry,) = Names(args.store).entries([args.checkpoint])
    checkpoint = entry.chosen
    if not checkpoint.evaluations or not any(name.startswith("bench/") for name in checkpoint.metrics):
        raise InputError(f"{entry.name} has no results of benchmarks here (its numbers are from {entry.source}): "
                         "evaluate it with a suite of benchmarks, or name the store that has its evaluations (--store)")
    keys = [(*group, str(row["id"])) for group, found in checkpoint.answers.items() for row in found.rows]
    asked = question_texts([checkpoint], keys if args.as_ != "lighteval" else [], tell=print)
    writer = {module.NAME: module.write for module in (lm_eval_files, lighteval_files, inspect_logs)}[args.as_]
    files = writer(Exported(entry.label, checkpoint, asked), args.out)
    others = sum(not name.startswith("bench/") for name in checkpoint.metrics)
    print(f"{args.out}: {len(files)} files for {args.as_}" + (
        f"; {others} metrics of probes and held-out text have no place in them" if others else "") + (
        "; no answers item by item, which --as lm-eval and --as inspect have" if args.as_ == "lighteval" else ""))
    return 0


def _import(args: argparse.Namespace) -> int:
    from evals.exchange.imported import MARK, read_results, write_evaluation

    if wrong := [each for each in args.task if not all(each.partition("=")[::2])]:
        raise InputError(f"--task {wrong[0]}: allowed: THEIRS=OURS, such as arc_challenge=arc")
    findings, model, suite = read_results(args.files, args.form, dict(each.split("=", 1) for each in args.task))
    label, digest = _checkpoint(args.store, args.checkpoint) if args.checkpoint else (None, "")
    name = args.name or model
    directory = write_evaluation(args.store, findings, suite, args.files, name="" if label else name, checkpoint=label,
                                 digest=digest)
    paired = f", {len(findings.rows):,} answers" if findings.rows else ", no answers item by item"
    print(f"{directory}: {len(findings.metrics)} metrics of {suite}{paired}; compare with "
          f"'{args.checkpoint or MARK + name}'")
    return 0


def _checkpoint(store: Path, name: str) -> tuple[Mapping[str, Any], str]:
    """Return the label of a checkpoint and the digest of the step that made it, or of its bytes."""
    from argosy.core.store.provenance import Identities
    from argosy.model.weights.checkpoint import find_checkpoint
    from workflows.stored.last_run import model_directory
    from workflows.stored.lineage import step_directory, training_step

    path = model_directory(store, name)
    label = find_checkpoint(path).label()
    try:
        trained = training_step(step_directory(path))
    except InputError:
        trained = None
    return label, trained.digest if trained else str(Identities().of_path(path, "checkpoint"))


COMMAND = Command("results", "results as files of lm-eval, lighteval and Inspect; and theirs in", 73, configure, run)
