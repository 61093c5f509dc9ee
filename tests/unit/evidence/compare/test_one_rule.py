"""One interval, chance, kind, and rule of who has seen a test: the same in the gate and in pages."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

from argosy.core.statistics.contamination import Contamination
from argosy.core.statistics.decisions import Point
from argosy.core.statistics.intervals import wilson
from argosy.core.statistics.metric import Metric, share
from argosy.evidence.compare.changes import change
from argosy.evidence.compare.checkpoints import Checkpoint
from argosy.evidence.compare.comparison import compare
from argosy.evidence.compare.entries import Entry, Pair
from argosy.evidence.compare.metrics import Kind
from argosy.evidence.compare.sentences import seen_by
from argosy.evidence.compare.watch import Line, Watched, watched, worth_watching
from argosy.evidence.gate.check import check
from argosy.evidence.gate.config import Gate
from argosy.evidence.gate.subject import Subject
from argosy.evidence.report.items import differing
from argosy.evidence.results.contamination import Seen
from tests.comparison_fixtures import checkpoint

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


def status(rule: Any, new: Checkpoint, old: Checkpoint | None = None) -> tuple[str, Mapping[str, float]]:
    found = check(Gate.model_validate({"rules": [rule]}), Subject(new), Subject(old) if old else None)
    return found.status, found.judgements[0].findings[0].numbers


def test_answers_that_all_agree_are_as_many_as_their_items() -> None:
    c = checkpoint("a", rows({str(n): [1] * 24 for n in range(20)}), stderr={NAME: 0.0}, counts={NAME: 480})
    assert c.interval(NAME) == pytest.approx(wilson(20, 20))
    held, numbers = status({"at_least": {NAME: {"value": 0.9, "certain": True}}}, c)
    assert (held, numbers["low"]) == ("cannot tell", wilson(20, 20)[0])


@pytest.mark.parametrize(("name", "kind", "more", "verdict"), [
    ("probe/p/refusal/auc", Metric("higher", "", 0.02, chance=0.5), {}, "at chance"),
    ("bench/t/permuted/acc_averaged", share(chance="chance"), {"bench/t/permuted/chance": 0.5}, "at chance"),
    ("bench/t/permuted/acc_all", share(chance="chance_all"), {"bench/t/permuted/chance_all": 0.06}, "watch"),
    ("bench/t/plain/errors", share("lower", chance=0.3), {}, "at chance"),
    ("bench/t/plain/errors", share("lower", chance=0.6), {}, "watch"),
    ("bench/t/plain/f1", Metric("higher"), {}, "watch"),
])  # fmt: skip
def test_nothing_below_its_own_chance_is_worth_watching(name: str, kind: Metric, more: dict[str, float],
                                                        verdict: str) -> None:
    every = line(name, [0.1 + 0.05 * n for n in range(8)], kind, **more)  # to 0.45, five times its noise
    assert every[-1].chance(name) == (next(iter(more.values())) if more else kind.chance)
    found = watchlist(every, name)
    assert (found[name].verdict, found.keys() & set(more)) == (verdict, set())


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


def test_a_part_of_a_benchmark_is_of_the_longest_name_that_it_begins_with() -> None:
    score = Contamination("order_gap", 0.9, 0.8, 1.0, 30.0, 1e-9, 0.99, 200, ())
    c = Checkpoint("a", "a", "sft", "a", 0, 0, logged={"t": Seen("t", score), "t_hard": Seen("t_hard")})
    pair = Pair(*(Entry(each.key, each.key, [each], each) for each in (c, Checkpoint("b", "b", "sft", "b", 0, 0))))
    seen = {task: seen_by(pair, f"bench/{task}/plain/acc") for task in ("t", "t_zh", "t_stem", "t_hard", "tea")}
    assert seen == {"t": True, "t_zh": True, "t_stem": True, "t_hard": False, "tea": False}
    assert not seen_by(pair, "probe/t/plain/acc")


def test_a_difference_is_of_the_values_beside_it() -> None:
    """Items with more questions than others count more in the metric, so they do in its difference."""
    first = {"a": [0], "b": [1, 1, 1], **{str(n): [n % 2] for n in range(12)}}
    second = {**first, "a": [1], "b": [0, 0, 1]}
    a, b = (checkpoint(label, [row | {"gold": 0} for row in rows(of)]) for label, of in (("a", first), ("b", second)))
    found = change(NAME, a, b)
    assert found.how == "paired"
    assert found.difference.value == pytest.approx(found.after - found.before) == pytest.approx(-1 / 16)
    assert (found.tested.n, found.tested.items, found.tested.gained, found.tested.lost) == (16, 14, 1, 1)


def test_questions_that_cannot_be_compared_do_not_differ() -> None:
    answers = {str(n): [n % 2] for n in range(8)}
    first = checkpoint("a", [row | {"id": row["item"], "gold": 0} for row in rows(answers)])
    others = [{"id": str(n), "gold": 1, "correct": n % 2 == 0} for n in range(8)]
    for number, more in enumerate(({"gold": 1}, {"asked": "f00d"}, {})):
        second = checkpoint("b", [row | other | {"gold": 0} | more for row, other in zip(rows(answers), others,
                                                                                        strict=True)])
        asked = [{**row, "asked": "beef"} for row in first.rows.groups["t", "permuted"]]
        old = checkpoint("a", asked) if "asked" in more else first
        assert differing([Entry(c.label, c.label, [c], c) for c in (old, second)]).count == (8 if number == 2 else 0)


def test_better_on_cannot_tell_of_what_has_no_direction_or_of_few_items() -> None:
    few = [checkpoint(label, rows({str(n): [right] for n in range(4)}, gold=0), counts={NAME: 4})
           for label, right in (("a", 0), ("b", 1))]
    assert status({"better_on": {"on": [NAME]}}, few[1], few[0])[0] == "cannot tell"  # of 4, p is 0.125 or more
    many = [checkpoint(label, [row | {"variant": form} for form in ("permuted", "cloze") for row in rows(
        {str(n): [right] for n in range(6)}, gold=0)]) for label, right in (("a", 0), ("b", 1))]  # fmt: skip
    assert status({"better_on": {"on": [NAME]}}, many[1], many[0])[0] == "holds"  # p 0.03
    best = {"better_on": {"on": ["bench/t/*/acc"], "least": 1}}  # of three, so p is 0.09
    assert status(best, many[1], many[0])[0] == "cannot tell"
    for c in many:
        c.kinds[NAME] = share("neither")
    assert status({"better_on": {"on": [NAME]}}, many[1], many[0])[0] == "cannot tell"


def test_metrics_worth_watching_are_told_from_noise_and_guessing() -> None:
    rng, steps = np.random.default_rng(4), np.arange(12)
    values = {"learns": (0.25 + 0.03 * steps + rng.normal(0, 0.005, 12), 0.015), "few": ([0.4], 0.015),
              "guesses": (0.25 + rng.normal(0, 0.012, 12), 0.015), "jumps": (0.5 + rng.normal(0, 0.08, 12), 0.015),
              "blunt": (0.5 + 0.002 * steps, 0.05), "bits": (3 * np.exp(-steps / 5), 0.01)}
    lines = {name: [Line("a", tuple(Point(1000.0 * n, float(v), error) for n, v in enumerate(some)),
                         (some[-1] - 2 * error, some[-1] + 2 * error), 0.25 if name in ("learns", "guesses") else None)]
             for name, (some, error) in values.items()}  # fmt: skip
    found = worth_watching(lines, {name: Kind("lower" if name == "bits" else "higher") for name in lines})
    assert {each.metric: each.verdict for each in found} == {
        "learns": "watch", "guesses": "at chance", "jumps": "noise", "few": "too few checkpoints",
        "blunt": "does not tell apart", "bits": "watch"}  # fmt: skip
    first, second = found[:2]
    assert first.found.ratio > second.found.ratio
    assert next(each for each in found if each.metric == "bits").trend.tau == pytest.approx(-1)
