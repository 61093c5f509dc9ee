"""`argosy evaluate`: evaluate one checkpoint, or any model that transformers loads, with suites."""

import argparse
import os
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from argosy.core.errors import ArgosyError, InputError
from argosy.evidence.results.evaluation import SuiteConfig
from workflows.cli.command import Command, add_store, as_typed, positive
from workflows.stored.last_run import export_name, model_directory, node_of, nodes
from workflows.stored.lineage import step_directory, training_step

SUITE_FIELDS = ("evaluate.suite_file", "evaluate.suites")
SCORES = ".scores"  # below the store: scores by checkpoint and request
# of a benchmark; results.json has all
SHOWN = ("acc", "acc_norm", "mass", "text_first", "answer_first", "gain", "learned", "control", "named")


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("checkpoint", metavar="CHECKPOINT", help="a checkpoint's name, or a directory")
    parser.add_argument("--suite", action="append", metavar="NAME|FILE", help="suite (default: core); may be repeated")
    parser.add_argument("--data", default="", metavar="DIR",
                        help="folder of benchmarks, or a data step's directory (default: the store's data step, for "
                        "suites that read its files)")
    parser.add_argument("--tokens", type=Path, metavar="DIR",
                        help="a tokenize step's directory, for held-out loss (default: the store's)")
    parser.add_argument("--limit", type=positive, metavar="N",
                        help="evaluate the first N items of each file or lm-eval task: of each subject, where a "
                             "benchmark has subjects")
    parser.add_argument("--seed", type=int, metavar="N", help="seed of random choices (default: the last run's)")
    parser.add_argument("--chat", choices=("auto", "on", "off"), default="auto",
                        help="ask in the chat template (default: auto, as the checkpoint was trained)")
    parser.add_argument("--threads", type=positive, default=os.cpu_count() or 1, metavar="N",
                        help="threads of torch, which decide the last digits of scores (default: all cores)")
    parser.add_argument("--processes", type=positive, default=1, metavar="N",
                        help="processes that score, a GPU each (default: 1)")
    parser.add_argument("--backend", choices=("transformers", "vllm"), default="transformers",
                        help="library that computes scores (default: transformers)")
    parser.add_argument("--dtype", choices=("auto", "float32", "bfloat16"), default="auto",
                        help="precision to compute in (default: the weights', or float32 where the CPU lacks theirs)")
    parser.add_argument("--again", action="store_true", help="retry whatever failed, and keep the rest")
    add_store(parser)


def run(args: argparse.Namespace) -> int:
    """Evaluate with each suite and print; return 1 where a task failed. A suite that cannot be run is named, and the
    others go on."""
    from argosy.evidence.results.suite import check_apart

    common = _config(args)
    suites = args.suite or ["core"]
    if len(suites) == 1:
        return int(_evaluate(common, suites[0], args))
    check_apart(suites)
    codes = {0}
    for suite in suites:
        try:
            codes.add(int(_evaluate(common, suite, args)))
        except ArgosyError as error:
            print(f"argosy evaluate: {error}", file=sys.stderr, flush=True)
            codes.add(error.exit_code)
    return max(codes)


def _evaluate(common: Mapping[str, Any], suite: str, args: argparse.Namespace) -> bool:
    """Evaluate with a suite, and copies that learn its items where a variant wants some; tell whether a task failed."""
    from workflows.evaluation import learning, suite_fields

    with as_typed({"evaluate.suite_files": "a file of --suite", **dict.fromkeys(SUITE_FIELDS, "--suite")}):
        fields = suite_fields(suite)
        common = {**_own_steps(args, fields["suite_file"]), **common}
        header = _header(args.store, common, fields["suite"])
        way, alone = learning(fields["suite_file"], args.backend)
        failed = False if alone else _run("evaluate", {**common, **fields}, header, args)
    if way:
        own = {name: value for name, value in {**common, **fields}.items() if name in SuiteConfig.model_fields}
        failed |= _run("learn", own, header, args)
    return failed


def _own_steps(args: argparse.Namespace, suite: str) -> dict[str, str]:
    """Name the store's data and tokenize steps where a suite reads them and no others are given."""
    from argosy.core.store.step_files import read_done
    from argosy.evidence.results.suite import load_suite

    def step(name: str) -> Path | None:
        path = (args.store / nodes(args.store).directories[name]).absolute() if node_of(args.store, name) else None
        return path if path and read_done(path) else None

    found, loaded = {}, load_suite(suite)
    if loaded.heldout is not None and not (args.tokens or loaded.heldout.get("texts")) and (tokens := step("tokenize")):
        found["tokens"] = str(tokens)
    if not args.data and (data := step("data")):
        named = str((loaded.benchmarks, loaded.heldout))
        files = (str(path.relative_to(data)) for path in data.rglob("*.jsonl"))
        if loaded.probes is not None or any(repr(file) in named for file in files):
            found["data"] = str(data)
    return found


def _run(step: str, config: dict[str, Any], header: Mapping[str, str], args: argparse.Namespace) -> bool:
    """Run a step that evaluates, and print what it found; return whether a task failed."""
    from argosy.core.store.step_files import read_outputs
    from workflows.local.runner import run_single

    out = run_single(step, config, args.store, header, again=args.again)
    outputs = read_outputs(out)
    print("\n".join(_lines(outputs)))
    if (out / "rejects").is_dir():
        print(f"records that are no items: {out / 'rejects'}")
    print(f"all results, and each item's answer: {out}", flush=True)
    return bool(outputs.get("failed"))


def _header(store: Path, common: Mapping[str, Any], suite: str) -> dict[str, str]:
    """Name the model line of the checkpoint, and the run in MLflow as a pipeline names it."""
    from argosy.model.weights.checkpoint import find_checkpoint
    from workflows.stored.last_run import line_of_model

    found = find_checkpoint(common["checkpoint"], common.get("export", "final"))
    title = "-".join(filter(None, ("evaluate", found.stage, found.name, suite)))
    return {"line": line_of_model(store, Path(common["checkpoint"])), "title": title}


def _config(args: argparse.Namespace) -> dict[str, Any]:
    directory = model_directory(args.store, args.checkpoint)
    config: dict[str, Any] = {**_as_the_graph(directory), "chat": args.chat, "threads": args.threads,
                              "seed": _seed(args.store) if args.seed is None else args.seed}
    if args.data and (Path(args.data) / "outputs.json").is_file():
        config["data"] = str(Path(args.data).absolute())
    elif args.data:
        # Not `data`: what is below this folder counts by the bytes of the files that the suite names.
        folder = Path(args.data).expanduser().absolute()
        if args.data != "huggingface" and not folder.is_dir():
            raise InputError(f"--data is {args.data!r}: there is no such folder; docs/tasks.md says what lies in it")
        os.environ["ARGOSY_BENCHMARKS"] = args.data if args.data == "huggingface" else str(folder)
    if args.tokens:
        config["tokens"] = str(args.tokens.absolute())
    config |= {"processes": args.processes, "backend": args.backend, "dtype": _dtype(args, directory),
               "cache": str((args.store / SCORES).absolute())}
    return config | ({"limit": args.limit} if args.limit else {})


def _as_the_graph(directory: Path) -> dict[str, str]:
    """Name an export by its step, as the graph does: its evaluations are found by the step's digest."""
    with suppress(InputError):  # a model that no step made, or another folder of a step
        if trained := training_step(step_directory(directory)):
            step, name = trained.directory.absolute(), export_name(trained, directory)
            return {"checkpoint": str(step), "export": "final" if name == trained.final else name}
    return {"checkpoint": str(directory.absolute())}


def _dtype(args: argparse.Namespace, directory: Path) -> str:
    """Settle the precision, and say on stderr where it is not the weights' own and nobody asked for that."""
    from argosy.core.step.machine import usable_gpus
    from argosy.model.weights.checkpoint import find_checkpoint
    from workflows.cli.generate import settle_dtype

    gpu = args.backend == "vllm" or bool(usable_gpus())
    return settle_dtype(args.dtype, find_checkpoint(directory), gpu=gpu)


def _seed(store: Path) -> int:
    """Read the seed of the store's last run, so that the same questions are drawn as in its evaluations; else 0."""
    from argosy.core.store.files import read_record
    from workflows.lifecycle import LifecycleConfig
    from workflows.stored.last_run import FILE

    found = read_record(store / FILE)
    if not found:
        return 0
    config = found.get("config") or {}
    seed = (config.get("evaluate") or {}).get("seed", config.get("seed", LifecycleConfig.model_fields["seed"].default))
    return int(seed)


def _lines(outputs: Mapping[str, Any]) -> list[str]:
    """List a line a task and variant, one a measure of anything else, then what was left out."""
    from argosy.corpus.text.display import columns, plain
    from argosy.evidence.results.evaluation import describe_gaps

    metrics, stderr, counts = outputs["metrics"], outputs["stderr"], outputs["counts"]
    rows = []
    for name, value in metrics.items():
        kind, *parts = name.split("/")
        if kind == "bench" and (_of_one_language(name, metrics, counts) or parts[-1] not in SHOWN):
            continue
        error = f"± {plain(stderr[name])}" if name in stderr else ""
        chance = metrics.get("/".join([kind, *parts[:-1], "chance"])) if parts[-1] == "acc" else None
        unread = metrics.get("/".join([kind, *parts[:-1], "unparsable"])) if parts[-1] == "acc" else None
        beside = [f"{what} {share:.2f}" for what, share in (("chance", chance), ("unparsable", unread))
                  if share is not None]
        cut = sum(n for where, n in outputs.get("cut", {}).items() if name.startswith(f"{where}/"))
        asked = f"n {counts[name]}" + (f", {cut} cut" if cut else "")
        rows.append(["/".join(parts), plain(value), error, ", ".join(beside), asked])
    return [*columns(rows, right=(1, 4)).splitlines(), *describe_gaps(outputs)]


def _of_one_language(name: str, metrics: Mapping[str, float], counts: Mapping[str, int]) -> bool:
    """Tell whether a metric of a task in one language repeats the task's own: it has no other language."""
    task, _, rest = name.removeprefix("bench/").partition("/")
    whole = f"bench/{task[:-3]}/{rest}"
    return task.endswith(("_en", "_zh")) and metrics.get(whole) == metrics[name] and counts[whole] == counts[name]


COMMAND = Command("evaluate", "evaluate a checkpoint, or any model, with suites", 65, configure, run)
