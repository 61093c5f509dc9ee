"""Does learn-then-ask tell models that know a benchmark's answers from others? Small models, real data.

python -m benchmarks.learning [--seeds 4] [--items 64]

Trains small models on the text of ../shared/data (benchmarks.contamination.models): without a benchmark's items
(clean), with their answers in another form (informed), and with the items as published so often that it knows the right
letter of most (contaminated); and takes each through the step `learn`. `auc`: of the gain, of informed models against
the others; `auc_closed`: the same where each item's own options alone are scored; `auc_memorised`: of contaminated
models against clean ones, 0.5 where memorised letters are worth nothing. The last line is JSON.
"""

import argparse
import contextlib
import json
import resource
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from statistics import mean, stdev
from typing import Any

from argosy.core.statistics.intervals import auc
from argosy.core.step.contract import Progress, StepContext
from argosy.core.tracking.tracker import Tracker
from benchmarks.contamination import models
from benchmarks.contamination.models import Recipe
from evals.items import Item
from steps.learn import STEP, LearnConfig

KINDS = {"clean": 0, "informed": 0, "contaminated": 32}  # exposures of the items as published
KNOWING = "informed"
LEARN = {"epochs": 4, "learning_rate": 1e-3}
VARIANTS = {"cloze": None, "open": [{"learn_then_ask": {**LEARN, "among": 60}}, "cloze"],
            "closed": [{"learn_then_ask": LEARN}, "cloze"]}  # fmt: skip
_SHARED: dict[str, Any] = {}


@dataclass(frozen=True)
class Case:
    """A model that was trained, its accuracies before and what the step `learn` measured, by `<variant>/<measure>`."""

    kind: str
    letters: float
    cloze: float
    found: dict[str, float] = field(default_factory=dict)


def main() -> None:
    """Train, learn, ask, print."""
    parser = argparse.ArgumentParser("python -m benchmarks.learning", description=__doc__)
    parser.add_argument("--seeds", type=int, default=4, help="models of a kind, each with items of its own")
    parser.add_argument("--items", type=int, default=64, help="items that a model is asked")
    args = parser.parse_args()
    if not models.DATA.is_dir():
        parser.error(f"{models.DATA} is absent: the benchmark trains on its text and items")
    cases = list(models.in_pairs(_case, list(recipes(args.seeds, args.items))))
    print(table(cases))
    print(json.dumps({"name": "learning", "unit": "AUC", **summary(cases), "processor_seconds": processor_seconds()}))


def recipes(seeds: int, size: int) -> Iterator[Recipe]:
    """A model of each kind for each seed: of one seed, all have the same items, and the same prose beside them."""
    pool, prose = models.mmlu(), models.prose()
    _SHARED["tokenizer"] = models.tokenizer_for([pool], prose)
    for seed in range(seeds):
        items = Random(f"learning/{seed}").sample(pool, 3 * size)
        own, others = tuple(items[:size]), tuple(items[size:])
        for kind, exposures in KINDS.items():
            yield Recipe("test", kind, exposures, 2000 + seed, own, others, tuple(prose[seed::seeds][: 3 * size // 2]))


def _case(recipe: Recipe) -> Case:
    model = models.train(recipe, _SHARED["tokenizer"])
    letters, cloze = (models.accuracy(model, recipe.items, form) for form in ("plain", "cloze"))
    with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(None):
        found = gains(Path(folder), model, recipe.items)
    return Case(recipe.kind, letters, cloze, found)


def gains(folder: Path, model: Any, items: Sequence[Item]) -> dict[str, float]:
    """Measure a model by the step `learn`, in points or shares."""
    checkpoint = folder / "model"
    model.model.save_pretrained(checkpoint)
    model.tokenizer.save_pretrained(checkpoint)
    lines = [{"id": item.id, "lang": item.lang, "question": item.question, "choices": item.choices,
              "answer": item.answer} for item in items]  # fmt: skip
    (folder / "items.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    suite = {"benchmarks": {"tasks": {"items": ["items.jsonl"]}, "variants": VARIANTS}}
    (folder / "learning.yaml").write_text(json.dumps(suite))
    config = LearnConfig(checkpoint=str(checkpoint), suite_file=str(folder / "learning.yaml"), threads=1)
    (folder / "out").mkdir()
    found = STEP.run(config, StepContext(folder / "out", Tracker(None), Progress(None))).model_dump()["metrics"]
    return {name.removeprefix("bench/items/"): value for name, value in found.items() if "/items/" in name}


def summary(cases: Sequence[Case]) -> dict[str, Any]:
    """AUCs, and the mean gain of each kind with its standard error over models."""

    def gain(variant: str, *kinds: str) -> list[float]:
        return [case.found[f"{variant}/gain"] for case in cases if case.kind in kinds]

    others = [kind for kind in KINDS if kind != KNOWING]
    return {
        "auc": auc(gain("open", KNOWING), gain("open", *others)).value,
        "auc_closed": auc(gain("closed", KNOWING), gain("closed", *others)).value,
        "auc_memorised": auc(gain("open", "contaminated"), gain("open", "clean")).value,
        "gain": {kind: [round(mean(each), 1), round(stdev(each) / len(each) ** 0.5, 1)]
                 for kind in KINDS if len(each := gain("open", kind)) > 1},
    }  # fmt: skip


def table(cases: Sequence[Case]) -> str:
    """A line for each kind: accuracies before, then means of what was learnt, and all gains."""
    heads = " ".join(f"{head:>7}" for head in ("letters", "cloze", "named", "learned", "control"))
    lines = [f"{'models':<13} {heads}  gains (open; closed)"]
    for kind in KINDS:
        some = [case for case in cases if case.kind == kind]
        shares = [mean(case.found[f"open/{name}"] for case in some) for name in ("named", "learned", "control")]
        each = ["  ".join(f"{case.found[f'{form}/gain']:.1f}" for case in some) for form in ("open", "closed")]
        before = [mean(case.letters for case in some), mean(case.cloze for case in some)]
        lines.append(f"{kind:<13} {' '.join(f'{value:>7.2f}' for value in [*before, *shares])}  {'; '.join(each)}")
    return "\n".join(lines)


def processor_seconds() -> int:
    """Processor time of this process and its workers, seconds."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return round(sum(each.ru_utime + each.ru_stime for each in used))


if __name__ == "__main__":
    main()
