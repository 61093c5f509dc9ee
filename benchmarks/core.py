"""The suite `core` on a real model: our runner beside lm-eval's harness with its own HFLM.

python -m benchmarks.core --model DIR

Both ask the same questions of the same items in all forms of the suite, multiple choice and generated, of those of its
benchmarks that `../shared/data` has; lm-eval with its fastest batch size. Log-probabilities have to agree to 2e-3, and
generated texts to be equal. The last line is JSON; `ratio` is our items a second over lm-eval's, `ratios` has each
benchmark's, `cpu_ratio` is of processor time.
"""

import argparse
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.side_by_side import THREADS, Duel, needed

BATCHES = (1, 4, 16)
SUITE = "core"
_ADAPTERS = {name: f"commonsense_mc/*{file}*test.json" for name, file in  # LLM-Adapters' files of published tasks
             (("openbookqa", "openbookqa"), ("piqa", "piqa"), ("siqa", "social_i_qa"), ("winogrande", "winogrande"))}


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser("python -m benchmarks.core", description=__doc__)
    parser.add_argument("--model", required=True, help="a causal model that transformers loads")
    parser.add_argument("--items", type=int, default=6, help="items of each benchmark")
    parser.add_argument("--only", nargs="*", default=(), help="benchmarks; all that have files by default")
    parser.add_argument("--threads", type=int, default=THREADS, help="of either side")
    print(json.dumps(measure(parser.parse_args())))


def measure(args: argparse.Namespace) -> dict[str, Any]:
    """The figures."""
    names = [name for name in section(args.items).tasks if name in args.only or not args.only]
    duel = Duel(_ours, _peer, Path(args.model), args.threads)
    duel.tune(BATCHES, name="openbookqa", items=4)
    for name in names:
        duel.turn(name, args.items, name=name, items=args.items)
    return {"name": SUITE, "unit": "items/s", **duel.figures(within=2e-3), "forms": list(section(1).variants),
            "model": args.model}  # fmt: skip


def section(items: int, name: str = "") -> Any:
    """Read the suite's benchmarks that have files here, or the one of that name, with so many items each."""
    from argosy.evidence.results.suite import load_suite
    from evals.section import Benchmarks

    data, suite = needed("mmlu").parent, load_suite(SUITE).section("benchmarks", Benchmarks)
    tasks = {}
    for task, spec in suite.tasks.items():
        own = {"files": (_ADAPTERS[task],), "shots": (), "format": "instructions"} if task in _ADAPTERS else {}
        spec = spec.model_copy(update={**own, "limit": items, "hf": ""})
        if name in ("", task) and any(any(data.glob(pattern)) for pattern in spec.files):
            tasks[task] = spec
    return suite.model_copy(update={"tasks": tasks})


Work = Callable[..., dict[str, list[float]]]


def _ours(model: str) -> Work:
    from argosy.model.infer.model import LanguageModel
    from argosy.model.weights.checkpoint import find_checkpoint
    from evals.runner import run_benchmarks

    loaded = LanguageModel.load(find_checkpoint(model), dtype="float32")

    def work(name: str, items: int) -> dict[str, list[float]]:
        asked, data = section(items, name), needed("mmlu").parent
        found = run_benchmarks(asked, loaded, data, chat=False, seed=0, limit=None)
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

    def work(name: str, items: int, batch: int) -> dict[str, list[float]]:
        loaded.batch_size_per_gpu = batch
        asked, data = section(items, name), needed("mmlu").parent
        made = make_questions(read_tasks(asked.tasks, asked.variants, data, None, Findings()), 0, Findings())
        tasks = {each.chain.name: VariantTask.of(each.chain.name, each.questions) for each in made}
        evaluate(loaded, {"tasks": tasks}, bootstrap_iters=0, log_samples=False)
        return {_key(form, found.question.id, found.text): list(found.scores)
                for form, task in tasks.items() for found in task.answers.values()}  # fmt: skip

    return work


def _key(form: str, question: str, text: str | None) -> str:
    """Name an answer, with its text where it is generated: both sides must have all names."""
    return f"{form}/{question}" + ("" if text is None else f"/{text}")


if __name__ == "__main__":
    main()
