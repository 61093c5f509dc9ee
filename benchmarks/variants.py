"""Six variants of 4-choice items on one checkpoint: our runner beside lm-eval's harness with its own HFLM.

python -m benchmarks.variants

Both get the same questions of the same items, in turns, with two threads and float32; lm-eval the batch size with which
it is fastest. Items are MMLU's, of `../shared/data`. Every log-probability has to agree to 1e-4. The last line is JSON;
`ratio` is our items a second over lm-eval's, `cpu_ratio` a second of processors.
"""

import argparse
import json
import tempfile
from pathlib import Path
from random import Random
from typing import Any

from benchmarks.side_by_side import Duel, make_model, needed

VARIANTS: dict[str, Any] = {
    "plain": None, "cloze": None, "options_in_text": None, "none_of_the_others": None,
    "chinese_labels": {"labels": {"symbols": "numerals"}}, "permuted": {"permuted": {"k": 4}},
}  # fmt: skip
BATCHES = (8, 16, 32, 64)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser("python -m benchmarks.variants", description=__doc__)
    parser.add_argument("--items", type=int, default=120)
    parser.add_argument("--rounds", type=int, default=3, help="turns that the items are dealt to")
    parser.add_argument("--tuning", type=int, default=16, help="items to find the peer's best batch size with")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        print(json.dumps(measure(Path(folder), args)))


def measure(folder: Path, args: argparse.Namespace) -> dict[str, Any]:
    """The figures."""
    items = read(args.items + args.tuning)
    make_model(folder / "model", [text for item in items for text in (item["question"], *item["choices"])] * 4)
    parts = [items[args.tuning :][turn :: args.rounds] for turn in range(args.rounds)]
    files = [str(folder / f"{number}.jsonl") for number in range(len(parts) + 1)]
    for file, part in zip(files, [items[: args.tuning], *parts], strict=True):
        Path(file).write_text("".join(f"{json.dumps(item, ensure_ascii=False)}\n" for item in part), encoding="utf-8")
    duel = Duel(_ours, _peer, folder / "model")
    duel.tune(BATCHES, items=files[0])
    for part, file in zip(parts, files[1:], strict=True):
        duel.turn("items", len(part), items=file)
    return {"name": "variants", "unit": "items/s", **duel.figures(), "variants": list(VARIANTS), "of": "MMLU"}


def _ours(model: str) -> Any:
    from argosy.model.infer.model import LanguageModel
    from argosy.model.weights.checkpoint import find_checkpoint
    from evals.runner import run_benchmarks
    from evals.section import Benchmarks

    loaded = LanguageModel.load(find_checkpoint(model))

    def work(items: str) -> dict[str, list[float]]:
        section = Benchmarks.model_validate({"tasks": {"t": [items]}, "variants": VARIANTS})
        found = run_benchmarks(section, loaded, Path("/"), chat=False, seed=0, limit=None)
        return {f"{row['variant']}/{row['id']}": row["scores"] for row in found.rows}

    return work


def _peer(model: str) -> Any:
    import logging

    from lm_eval.evaluator import evaluate
    from lm_eval.models.huggingface import HFLM

    from evals.chain import parse_chain
    from evals.formats import read_items
    from evals.tasks.variant_task import VariantTask

    logging.getLogger("lm_eval").setLevel(logging.ERROR)
    loaded = HFLM(pretrained=model, device="cpu", dtype="float32", batch_size=1)

    def work(items: str, batch: int) -> dict[str, list[float]]:
        loaded.batch_size_per_gpu = batch
        chains = [parse_chain(name, spec) for name, spec in VARIANTS.items()]
        asked = {chain.name: chain.all_questions(read_items(Path(items)).items, 0)[0] for chain in chains}
        tasks = {name: VariantTask.of(name, questions) for name, questions in asked.items()}
        evaluate(loaded, {"tasks": tasks}, bootstrap_iters=0, log_samples=False)
        return {f"{name}/{found.question.id}": list(found.scores)
                for name, task in tasks.items() for found in task.answers.values()}  # fmt: skip

    return work


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
