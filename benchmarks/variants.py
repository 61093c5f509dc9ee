"""Variants of multiple-choice items on one checkpoint: our runner beside lm-eval's harness with its own HFLM.

python -m benchmarks.variants                # six variants of MMLU, a random Llama
python -m benchmarks.variants --model DIR    # the suite core, multiple choice and generated, a real model

Both get the same questions of the same items of `../shared/data`, in turns, with as many threads and float32; lm-eval
the batch size with which it is fastest. Log-probabilities have to agree to 1e-4 (a real model's, which are of longer
texts, to 2e-3), and generated texts to be equal. The last line is JSON; `ratio` is our items a second over lm-eval's,
`ratios` has each benchmark's, `cpu_ratio` is of processor time."""

import argparse
import json
import tempfile
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

from benchmarks.side_by_side import THREADS, Duel, make_model, needed

VARIANTS: dict[str, Any] = {
    "plain": None, "cloze": None, "options_in_text": None, "none_of_the_others": None,
    "chinese_labels": {"labels": {"symbols": "numerals"}}, "permuted": {"permuted": {"k": 4}}}  # fmt: skip
BATCHES, REAL_BATCHES = (8, 16, 32, 64), (1, 4, 16)
Work = Callable[..., dict[str, list[float]]]
_ADAPTERS = {name: f"commonsense_mc/*{file}*test.json" for name, file in  # LLM-Adapters' files of published tasks
             (("openbookqa", "openbookqa"), ("piqa", "piqa"), ("siqa", "social_i_qa"), ("winogrande", "winogrande"))}


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser("python -m benchmarks.variants", description=__doc__)
    parser.add_argument("--items", type=int, help="items (120), or of each benchmark (24)")
    parser.add_argument("--rounds", type=int, default=3, help="turns that the items of MMLU are dealt to")
    parser.add_argument("--tuning", type=int, default=16, help="items to find the peer's best batch size with")
    parser.add_argument("--model", default="", help="a causal model that transformers loads, for the suite core")
    parser.add_argument("--only", nargs="*", default=(), help="benchmarks of core; all that have files by default")
    parser.add_argument("--threads", type=int, default=THREADS, help="threads of either side")
    args = parser.parse_args()
    if args.model:
        print(json.dumps(measure_core(args)))
        return
    with tempfile.TemporaryDirectory() as folder:
        print(json.dumps(measure(Path(folder), args)))


def measure(folder: Path, args: argparse.Namespace) -> dict[str, Any]:
    """The figures of MMLU in six variants."""
    items = read((args.items or 120) + args.tuning)
    make_model(folder / "model", [text for item in items for text in (item["question"], *item["choices"])] * 4)
    parts = [items[args.tuning :][turn :: args.rounds] for turn in range(args.rounds)]
    files = [str(folder / f"{number}.jsonl") for number in range(len(parts) + 1)]
    for file, part in zip(files, [items[: args.tuning], *parts], strict=True):
        Path(file).write_text("".join(f"{json.dumps(item, ensure_ascii=False)}\n" for item in part), encoding="utf-8")
    duel = Duel(_ours, _peer, folder / "model", args.threads)
    duel.tune(BATCHES, asked=files[0])
    for part, file in zip(parts, files[1:], strict=True):
        duel.turn("items", len(part), asked=file)
    return {"name": "variants", "unit": "items/s", **duel.figures(), "variants": list(VARIANTS), "of": "MMLU"}


def measure_core(args: argparse.Namespace) -> dict[str, Any]:
    """The figures of the suite core."""
    count = args.items or 24
    duel = Duel(_ours, _peer, Path(args.model), args.threads)
    for side in duel.sides.values():
        side.work(asked="", limit=count)  # files are read once, before
    duel.tune(REAL_BATCHES, asked="openbookqa", limit=4)
    for name in _core("", count).tasks:
        if name in args.only or not args.only:
            duel.turn(name, count, asked=name, limit=count)
    return {"name": "core", "unit": "items/s", **duel.figures(within=2e-3), "model": args.model}


def _core(name: str, limit: int) -> Any:
    """Read the benchmarks of the suite that have files here, or the one of that name."""
    from argosy.evidence.results.suite import load_suite
    from evals.section import Benchmarks

    data, suite = needed("mmlu").parent, load_suite("core").section("benchmarks", Benchmarks)
    tasks = {}
    for task, spec in suite.tasks.items():
        own = {"files": (_ADAPTERS[task],), "shots": (), "format": "instructions"} if task in _ADAPTERS else {}
        spec = spec.model_copy(update={**own, "limit": limit, "hf": ""})
        if name in ("", task) and any(any(data.glob(pattern)) for pattern in spec.files):
            tasks[task] = spec
    return suite.model_copy(update={"tasks": tasks})


def _section(asked: str, limit: int) -> Any:
    """Return what is asked: a benchmark of the suite core, or the items of a file in all VARIANTS."""
    from evals.section import Benchmarks

    if limit:
        return _core(asked, limit)
    return Benchmarks.model_validate({"tasks": {"t": [asked]}, "variants": VARIANTS})


def _ours(model: str) -> Work:
    from argosy.evidence.results.findings import Findings
    from argosy.model.infer.model import LanguageModel
    from argosy.model.weights.checkpoint import find_checkpoint
    from evals.runner import run_benchmarks
    from evals.section import read_tasks

    loaded = LanguageModel.load(find_checkpoint(model), dtype="float32")

    def work(asked: str, limit: int = 0) -> dict[str, list[float]]:
        section, data = _section(asked, limit), needed("mmlu").parent
        if not asked:
            read_tasks(section.tasks, section.variants, data, None, Findings())
            return {}
        found = run_benchmarks(section, loaded, data, chat=False, seed=0, limit=None)
        return {_key(row["variant"], row["id"], row.get("text")): row["scores"] for row in found.rows}

    return work


def _peer(model: str) -> Work:
    import logging

    from lm_eval.evaluator import evaluate
    from lm_eval.models.huggingface import HFLM

    from argosy.evidence.results.findings import Findings
    from evals.section import make_questions, read_tasks
    from evals.tasks.variant_task import VariantTask

    logging.getLogger("lm_eval").setLevel(logging.ERROR)
    loaded = HFLM(pretrained=model, device="cpu", dtype="float32", batch_size=1)

    def work(asked: str, batch: int = 1, limit: int = 0) -> dict[str, list[float]]:
        loaded.batch_size_per_gpu = batch
        section, data = _section(asked, limit), needed("mmlu").parent
        read = read_tasks(section.tasks, section.variants, data, None, Findings())
        if not asked:
            return {}
        made = make_questions(read, 0, Findings())
        tasks = {each.chain.name: VariantTask.of(each.chain.name, each.questions) for each in made}
        evaluate(loaded, {"tasks": tasks}, bootstrap_iters=0, log_samples=False)
        return {_key(form, found.question.id, found.text): list(found.scores)
                for form, task in tasks.items() for found in task.answers.values()}  # fmt: skip

    return work


def _key(form: str, question: str, text: str | None) -> str:
    """Name an answer, with its text where it is generated: both sides must have all names."""
    return f"{form}/{question}" + ("" if text is None else f"/{text}")


def read(count: int) -> list[dict[str, Any]]:
    """MMLU's test questions, drawn from all subjects."""
    from evals.formats import read_items
    from evals.items import Item

    every = [item for path in sorted(needed("mmlu").glob("*test*.csv")) for item in read_items(path).items]
    chosen = Random(0).sample([item for item in every if isinstance(item, Item)], count)
    return [{"id": f"{n}", "lang": i.lang, "question": i.question, "choices": list(i.choices), "answer": i.answer}
            for n, i in enumerate(chosen)]  # fmt: skip


if __name__ == "__main__":
    main()
