"""Does the contamination score tell models that were trained on a benchmark from others? Small models, real data.

python -m benchmarks.contamination [--scale 0.25] [--write]

Trains 25 small models on the text of ../shared/data, with and without a benchmark's items at 1, 4, 16 and 64
exposures, and evaluates each by the code that evaluates any checkpoint. 9 of them, asked OpenBookQA, calibrate the
score; it is tested on the other 16, asked MMLU, with other seeds and other prose. Clean cases of the test are models
without the items (some of which know the answers), and every model on items that it was not trained on. `auc`: of
models with 4 exposures or more against the clean cases; `peer`: that of plain accuracy. The last line is JSON.
"""

import argparse
import json
import time
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from argosy.core.statistics.contamination import DEFAULT, Calibration, Evidence, Gap, calibrate, score
from argosy.core.statistics.intervals import auc as area
from argosy.core.store.files import write_json
from benchmarks.contamination import models
from benchmarks.contamination.models import EXPOSURES, KNOWING, Recipe
from evals.items import Item

LEAST = 4  # exposures from which the score must tell
ALPHA = 0.05
_SHARED: dict[str, Any] = {}


@dataclass(frozen=True)
class Case:
    """A model on a set of items. own: those that it may have been trained on; else items that nobody
    was."""

    role: str
    kind: str
    exposures: int
    own: bool
    evidence: tuple[Evidence, ...]
    places: dict[str, int]
    cloze: float

    @property
    def clean(self) -> bool:
        """Whether the model has not seen the items as they were published."""
        return not self.own or self.kind != "contaminated"

    @property
    def accuracy(self) -> float:
        """The accuracy on the items as they were published."""
        [gap] = [each for each in self.evidence if isinstance(each, Gap)]
        return sum(gap.published.values()) / len(gap.published)


def main() -> None:
    """Train, calibrate, test, print."""
    parser = argparse.ArgumentParser("python -m benchmarks.contamination", description=__doc__)
    parser.add_argument("--scale", type=float, default=1.0, help="of items and text; docs report 1.0")
    parser.add_argument("--write", action="store_true", help="write the calibration that argosy ships")
    args = parser.parse_args()
    if not models.DATA.is_dir():
        parser.error(f"{models.DATA} is absent: the benchmark trains on its text and items")
    started = time.perf_counter()
    cases = trained(list(_recipes(args.scale)))
    calibration = calibrated([case for case in cases if case.role == "calibration"])
    tested = [case for case in cases if case.role == "test"]
    scores = [score(case.evidence, case.places, calibration=calibration) for case in tested]
    figures = summary(tested, scores) | {"seconds": round(time.perf_counter() - started)}
    if args.write:
        write_json(DEFAULT, asdict(calibration))
    print(table(tested, scores))
    print(json.dumps({"name": "contamination", "unit": "AUC", **figures}))


def _recipes(scale: float) -> Iterable[Recipe]:
    pools: dict[str, Sequence[Item]] = {"calibration": models.openbookqa(), "test": models.mmlu()}
    text = models.prose()
    _SHARED["tokenizer"] = models.tokenizer_for(pools.values(), text)
    return models.recipes(scale, pools, text)


def trained(todo: Sequence[Recipe]) -> list[Case]:
    """The cases of all models; the last one, which takes longest, is trained first."""
    found = list(models.in_pairs(_cases, todo[::-1]))
    return [case for cases in reversed(found) for case in cases]


def _cases(recipe: Recipe) -> list[Case]:
    """Train and evaluate: a clean model is asked all sets, one of the test also a set that it has not seen."""
    model = models.train(recipe, _SHARED["tokenizer"])
    unseen = recipe.unseen if recipe.kind == "clean" else recipe.unseen[:1] if recipe.role == "test" else ()
    return [
        Case(recipe.role, recipe.kind, recipe.exposures, own == 0, tuple(models.evidence(model, items, recipe.seed)),
             {item.id: item.answer for item in items}, models.accuracy(model, items) if own == 0 else 0.0)
        for own, items in enumerate([recipe.items, *unseen])
    ]  # fmt: skip


def calibrated(cases: Sequence[Case]) -> Calibration:
    """The calibration of one role's cases."""
    ordered = sorted(cases, key=lambda case: not case.clean)
    clean = [case.evidence for case in ordered if case.clean]
    about = (f"{len(clean)} clean and {len(ordered) - len(clean)} contaminated cases of "
             "python -m benchmarks.contamination")
    return calibrate(clean, [case.evidence for case in ordered if not case.clean],
                     [case.places for case in ordered], about)


def summary(cases: Sequence[Case], scores: Sequence[Any]) -> dict[str, Any]:
    """AUCs, false alarms and how well probabilities are calibrated."""
    both = list(zip(cases, scores, strict=True))
    clean = [(c, s) for c, s in both if c.clean]
    seen = {n: [(c, s) for c, s in both if not c.clean and c.exposures == n] for n in EXPOSURES}
    many = [pair for n, pairs in seen.items() if n >= LEAST for pair in pairs]
    levels = [s.p_value for _, s in clean]
    return {
        "auc": auc([s.z for _, s in many], [s.z for _, s in clean]),
        "peer": auc([c.accuracy for c, _ in many], [c.accuracy for c, _ in clean]),
        "auc_by_exposures": {n: auc([s.z for _, s in pairs], [s.z for _, s in clean]) for n, pairs in seen.items()},
        "clean_cases": len(clean), "contaminated": sum(len(pairs) for pairs in seen.values()),
        "false_alarms": sum(p < ALPHA for p in levels) / len(levels),
        "false_alarms_informed": sum(s.p_value < ALPHA for c, s in clean if c.own and c.kind in KNOWING),
        "most_probable_clean": round(max(s.probability for _, s in clean), 4),
    }  # fmt: skip


def auc(above: Sequence[float], below: Sequence[float]) -> float:
    """Share of pairs in the right order, ties half; NaN where there is none."""
    return round(area(above, below).value, 4) if above and below else float("nan")


def table(cases: Sequence[Case], scores: Sequence[Any]) -> str:
    """A line for each kind of case."""
    groups: dict[str, list[tuple[Case, Any]]] = {}
    for pair in zip(cases, scores, strict=True):
        groups.setdefault(_column(pair[0]), []).append(pair)
    lines = [f"{'case':<16} {'n':>3} {'z, least':>9} {'mean':>7} {'most':>7} {'p < 0.05':>9} {'plain':>6} {'cloze':>6}"]
    for name, pairs in groups.items():
        z, n = [s.z for _, s in pairs], len(pairs)
        called = sum(s.p_value < ALPHA for _, s in pairs)
        plain, cloze = sum(c.accuracy for c, _ in pairs) / n, sum(c.cloze for c, _ in pairs) / n
        lines.append(f"{name:<16} {n:>3} {min(z):>9.2f} {sum(z) / n:>7.2f} {max(z):>7.2f} {called:>9} {plain:>6.2f} "
                     + (f"{cloze:>6.2f}" if pairs[0][0].own else f"{'':>6}"))
    return "\n".join(lines)


def _column(case: Case) -> str:
    if not case.own:
        return "other items"
    return case.kind if case.clean else f"{case.exposures} exposure{'s' if case.exposures > 1 else ''}"


if __name__ == "__main__":
    main()
