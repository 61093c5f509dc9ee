"""One interval, chance, kind (declared by a metric's maker), and rule of who has seen a test: in gate and pages."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

from argosy.core.statistics.contamination import Contamination
from argosy.core.statistics.decisions import Point
from argosy.core.statistics.metric import Metric, share
from argosy.evidence.compare.changes import change
from argosy.evidence.compare.checkpoints import Checkpoint
from argosy.evidence.compare.comparison import compare
from argosy.evidence.compare.entries import Entry
from argosy.evidence.compare.metrics import UNDECLARED, Kind, kind_of, known
from argosy.evidence.compare.watch import Line, Watched, watched, worth_watching
from argosy.evidence.gate.subject import Subject
from argosy.evidence.results.contamination import Seen
from tests.comparison_fixtures import checkpoint, entry, judged

NAME = "bench/t/permuted/acc"


def rows(answers: Mapping[str, list[int]], **more: Any) -> list[dict[str, Any]]:
    """Answers by item, one question each order of its options."""
    return [{"task": "t", "variant": "permuted", "id": f"{item}#{n}", "item": item, "correct": bool(right),
             "chosen": 0, "gold": 0 if right else 1, "scores": [0.0, -1.0], **more}
            for item, each in answers.items() for n, right in enumerate(each)]  # fmt: skip


def line(name: str, values: list[float], kind: Metric, **more: float) -> list[Checkpoint]:
    return [Checkpoint(f"a/{n}", "a", "pretrain", f"p{n}", n, 100 * n, label=f"p{n}", metrics={name: value, **more},
                       stderr={name: 0.01}, counts={name: 500}, kinds={name: kind}) for n, value in enumerate(values)]


def watchlist(every: list[Checkpoint], *names: str) -> dict[str, Watched]:
    """What the page says of metrics."""
    found = watched(compare([Entry("a", "a", every, every[-1])], names), "tokens")
    return {each.metric: each for each in found}


def test_what_has_no_direction_or_few_items_is_not_worth_watching_nor_where_the_test_was_seen() -> None:
    values = [0.3 + 0.05 * n for n in range(8)]
    assert watchlist(line(NAME, values, share("neither")), NAME)[NAME].verdict == "no direction"
    every = line(NAME, values, share())
    for c in every:
        c.counts[NAME] = 9
    few = watchlist(every, NAME)[NAME]
    assert (few.verdict, few.why, few.checkpoints) == ("few items", "it is of 9 items, fewer than 10", 8)
    every[3].seen["t"] = Seen("t", Contamination("order_gap", 0.9, 0.8, 1.0, 30.0, 1e-9, 0.99, 200, ()))
    assert watchlist(every, NAME)[NAME].checkpoints == 7


def test_a_difference_is_of_the_values_beside_it() -> None:
    """Items with more questions than others count more in the metric, so they do in its difference."""
    first = {"a": [0], "b": [1, 1, 1], **{str(n): [n % 2] for n in range(12)}}
    second = {**first, "a": [1], "b": [0, 0, 1]}
    a, b = (checkpoint(label, [row | {"gold": 0} for row in rows(of)]) for label, of in (("a", first), ("b", second)))
    found = change(NAME, a, b)
    assert found.how == "paired"
    assert found.difference.value == pytest.approx(found.after - found.before) == pytest.approx(-1 / 16)
    assert (found.tested.n, found.tested.items, found.tested.gained, found.tested.lost) == (16, 14, 1, 1)


def test_metrics_worth_watching_are_told_from_noise_and_guessing() -> None:
    rng, steps = np.random.default_rng(4), np.arange(12)
    values = {"learns": (0.25 + 0.03 * steps + rng.normal(0, 0.005, 12), 0.015), "few": ([0.4], 0.015),
              "guesses": (0.25 + rng.normal(0, 0.012, 12), 0.015), "jumps": (0.5 + rng.normal(0, 0.08, 12), 0.015),
              "blunt": (0.5 + 0.002 * steps, 0.05), "bits": (3 * np.exp(-steps / 5), 0.01)}
    lines = {name: [Line(tuple(Point(1000.0 * n, float(v), error) for n, v in enumerate(some)),
                         (some[-1] - 2 * error, some[-1] + 2 * error), 0.25 if name in ("learns", "guesses") else None)]
             for name, (some, error) in values.items()}  # fmt: skip
    found = worth_watching(lines, {name: Kind("lower" if name == "bits" else "higher") for name in lines})
    assert {each.metric: each.verdict for each in found} == {
        "learns": "watch", "guesses": "at chance", "jumps": "noise", "few": "too few checkpoints",
        "blunt": "does not tell apart", "bits": "watch"}  # fmt: skip
    first, second = found[:2]
    assert first.found.ratio > second.found.ratio


@pytest.mark.parametrize(("name", "better", "share"), [
    ("probe/generation/open/length", 0, False),
    ("judge/first/loop", -1, True), ("judge/second/loop", 0, True), ("judge/win_rate", 1, True),
    ("judge/losses", -1, True), ("judge/position_bias", 0, False), ("judge/longer_wins", 0, True),
    ("memorisation/exact/all", -1, True), ("memorisation/exact_heldout/all", 0, True),
    ("memorisation/exact_gap/all", -1, False), ("memorisation/matched/all", -1, False),
    ("memorisation/matched_heldout/all", 0, False),
    ("bench/t/headline/acc", 1, True), ("bench/t/plain/acc", 0, False), ("probe/probes/json/prob", 0, False),
    ("my/own/thing", 0, False), ("heldout/bpb/code", -1, False), ("heldout/exact_match", 1, True),
    ("train/loss", -1, False)])  # fmt: skip
def test_what_no_results_declare_is_as_its_makers_table_says(name: str, better: int, share: bool) -> None:
    assert (kind_of(name).sign, kind_of(name).share) == (better, share)


@pytest.mark.parametrize("name", ["bench/t/plain/my_score", "bench/t/plain/likely", "probe/s/x/my_measure", "my/thing"])
def test_what_nobody_declares_is_shown_and_decides_nothing(name: str) -> None:
    assert known(name) is None
    first, second = (entry(label, metrics={name: value}, stderr={name: 0.01})
                     for label, value in (("a", 0.2), ("b", 0.9)))
    found = compare([first, second])
    (contrast,) = found.pairs[0].contrasts
    assert (contrast.verdict, contrast.how, contrast.difference.value) == ("untested", UNDECLARED, pytest.approx(0.7))
    assert any(f"Nothing declares which way is better for {name}" in note for note in found.notes)
    rules = [{"not_worse": {"on": [name]}}]
    (finding,) = judged(rules, Subject(second.chosen), Subject(first.chosen)).judgements[0].findings
    assert finding.status == "cannot tell"
    assert UNDECLARED in finding.evidence
