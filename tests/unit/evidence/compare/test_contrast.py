"""One metric of two checkpoints: differences, intervals and p-values against SciPy, and what they are called."""

import math
from dataclasses import replace
from random import Random
from typing import Any

import numpy as np
import pytest
from scipy import stats

from argosy.core.errors import InputError
from argosy.core.statistics.metric import share
from argosy.evidence.compare.checkpoints import Checkpoint
from argosy.evidence.compare.comparison import compare
from argosy.evidence.compare.entries import At, Entry, choose
from argosy.evidence.compare.metrics import kind_of
from argosy.evidence.compare.test import OTHER_QUESTIONS, OTHER_TOKENS, Contrast, Side, contrast
from argosy.evidence.results.rows import Rows
from argosy.evidence.results.values import Value
from tests.comparison_fixtures import declared, entry


def _side(values: dict[str, Value]) -> Side:
    total = math.fsum(v.value for v in values.values()) / math.fsum(v.weight for v in values.values())
    return Side(total, 0.01, values)


def _one(name: str, first: Side, second: Side) -> Contrast:
    return contrast(name, kind_of(name, declared([name])), ("a", "b"), first, second)


def test_losses_of_documents_are_a_paired_t_test_of_their_sum() -> None:
    rng = np.random.default_rng(3)
    size = np.full(40, 300.0)
    before = size * (1 + rng.normal(0, 0.3, 40))
    after = before + size * rng.normal(0.02, 0.02, 40)
    sides = [_side({str(n): Value(str(n), float(v), float(s), str(n), 300.0)
                    for n, (v, s) in enumerate(zip(of, size, strict=True))}) for of in (before, after)]
    found = _one("heldout/bpb/en", *sides)
    expected = stats.ttest_rel(after / size, before / size)
    assert found.tested.p_value == pytest.approx(expected.pvalue)
    interval = expected.confidence_interval(0.95)
    assert (found.difference.low, found.difference.high) == pytest.approx((interval.low, interval.high))
    ninety = expected.confidence_interval(0.90)
    assert found.most == pytest.approx(max(abs(ninety.low), abs(ninety.high)))


def test_without_rows_two_standard_errors_are_independent() -> None:
    found = _one("bench/t/plain/acc", Side(0.5, 0.03), Side(0.6, 0.04))
    assert (found.how, found.tested.p_value) == ("unpaired", pytest.approx(2 * stats.norm.sf(0.1 / 0.05)))
    assert found.difference.high == pytest.approx(0.1 + stats.norm.ppf(0.975) * 0.05)


@pytest.mark.parametrize(("first", "second", "how"), [
    (Side(math.nan, 0.1), Side(0.5, 0.1), "a value is not a number"),
    (Side(0.5), Side(0.6), "no standard error"),
    (_side({"a": Value("a", 1.0)}), _side({"b": Value("b", 0.0)}), "no questions in common"),
    (_side({"a": Value("a", 9.0, 4.0, "a", 4.0)}), _side({"a": Value("a", 9.0, 3.0, "a", 3.0)}), OTHER_QUESTIONS)])
def test_what_cannot_be_tested_says_why(first: Side, second: Side, how: str) -> None:
    found = _one("bench/t/plain/acc", first, second)
    assert (found.how, found.tested.p_value, found.verdict) == (how, None, "untested")


def test_questions_of_one_name_with_another_right_option_are_not_paired() -> None:
    def rows(gold: int, options: int, **more: Any) -> Rows:
        return Rows({"task": "t", "variant": "plain", "id": str(n), "item": str(n), "correct": n % 2 == 0,
                     "gold": gold, "scores": [0.0] * options, **more} for n in range(30))  # fmt: skip

    name = "bench/t/plain/acc"
    same, *others = (_side(each.values(name)) for each in
                     (rows(1, 4), rows(2, 4), rows(1, 3), rows(1, 4, golds=[1, 2])))  # fmt: skip
    assert _one(name, same, _side(rows(1, 4).values(name))).how == "paired"
    assert [_one(name, same, other).how for other in others] == [OTHER_QUESTIONS] * 3
    headlines = [_side(rows(gold, 4).by_form("t", "plain")) for gold in (1, 2)]
    assert _one("bench/t/headline/acc", *headlines).how == OTHER_QUESTIONS


def _text(suite: str, bits: float, size: int = 400) -> list[dict[str, Any]]:
    return [{"task": suite, "variant": "en", "id": str(n), "nats": size * math.log(2) * bits * (1 + n / 10),
             "tokens": 100, "bytes": size} for n in range(12)]  # fmt: skip


def _texts(label: str, *suites: list[dict[str, Any]]) -> Entry:
    """Evaluated with one suite after the other: the metric is the last one's."""
    entry, rows = _line(label, 100), Rows()
    for suite in suites:
        rows.update(Rows(suite))
    nats, size = (math.fsum(row[key] for row in suites[-1]) for key in ("nats", "bytes"))
    entry.chosen.metrics = {"heldout/bpb/en": nats / size / math.log(2)}
    entry.chosen.rows = rows
    return entry


def test_two_suites_of_one_channel_are_not_mixed() -> None:
    """`channels` has a stride and costs less; a checkpoint is equal to itself whatever else it was evaluated with."""
    stride, whole = _text("channels", 0.9), _text("heldout", 1.0)
    for first, second in (([whole], [whole, stride]), ([whole], [stride, whole]), ([stride, whole], [whole, stride])):
        [found] = compare([_texts("a", *first), _texts("b", *second)]).pairs[0].contrasts
        assert (found.how, found.tested.n, found.asked) == ("paired", 12, 12)
        assert found.difference.value == pytest.approx(0, abs=1e-12)
    both = _texts("a", whole, stride).chosen.rows
    assert {check[0] for v in both.values("heldout/bpb/en").values() if isinstance(check := v.check, tuple)} == {
        "channels"}  # fmt: skip
    [found] = compare([_texts("a", whole), _texts("b", stride)]).pairs[0].contrasts
    assert found.how == OTHER_TOKENS
    [found] = compare([_texts("a", whole), _texts("b", _text("heldout", 1.0, 401))]).pairs[0].contrasts
    assert found.how == OTHER_TOKENS


def _entry(label: str, right: dict[str, list[int]]) -> Entry:
    rows = Rows({"task": "t", "variant": variant, "id": str(n), "item": str(n), "lang": "en", "correct": bool(r),
                 "scores": [0.0, -1.0], "chosen": 0, "gold": 0} for variant, answers in right.items()
                for n, r in enumerate(answers))  # fmt: skip
    return entry(label, rows)


def test_p_values_are_corrected_over_all_that_is_shown() -> None:
    rng = Random(5)
    a, b = ({v: [int(rng.random() < p) for _ in range(60)] for v in ("v1", "v2", "v3")} for p in (0.4, 0.6))
    found = compare([_entry("a", a), _entry("b", b)])
    raw = [c.tested.p_value for c in found.pairs[0].contrasts]
    expected = stats.false_discovery_control([p for p in raw if p is not None])
    assert [c.p_adjusted for c in found.pairs[0].contrasts] == pytest.approx(list(expected))
    assert found.tests == 3
    only = compare([_entry("a", a), _entry("b", b)], ["bench/*/v2/*"]).pairs[0].contrasts
    assert [c.name for c in only] == ["bench/t/v2/acc"]
    assert only[0].p_adjusted == only[0].tested.p_value


def _line(label: str, *tokens: int) -> Entry:
    line = [Checkpoint(f"{label}/{t}", label, "pretrain", f"p{t}", t // 10, t, label=f"{label}/p{t}",
                       metrics={"m": 1.0}) for t in tokens]
    return Entry(label, label, line, line[-1])


@pytest.mark.parametrize(("at", "by", "chosen"), [
    ("", "", [400, 300]), ("last", "", [400, 300]), ("", "tokens", [200, 300]), ("tokens=250", "", [200, 100]),
    ("tokens=0.3k", "", [200, 300]), ("step=10", "", [100, 100]), ("", "step", [200, 300])])  # fmt: skip
def test_lines_are_compared_at_equal_tokens_or_steps(at: str, by: str, chosen: list[int]) -> None:
    entries = [_line("a", 100, 200, 400), _line("b", 100, 300)]
    choose(entries, At.parse(at, by))
    assert [e.chosen.tokens for e in entries] == chosen
    told = [note for e in entries for note in e.notes]
    assert len(told) == (0 if at in ("", "last") and not by else 2)


@pytest.mark.parametrize(("at", "by", "words"), [
    ("tokens=50", "", "a has no evaluated checkpoint at or below tokens=50; its first is a/p100 at tokens=100"),
    ("epochs=3", "", "--at epochs=3: allowed: tokens=N (such as tokens=1.2M), step=N, or last"),
    ("step=5", "tokens", "contradict each other"), ("last", "step", "contradict each other")])  # fmt: skip
def test_a_place_that_is_not_there_is_told(at: str, by: str, words: str) -> None:
    with pytest.raises(InputError) as error:
        choose([_line("a", 100, 200)], At.parse(at, by))
    assert words in str(error.value)


NEAR_0 = "probe/values/w/gap"


def _judged(before: float, after: float) -> Contrast:
    kind = kind_of(NEAR_0, {NEAR_0: share("zero")})
    found = contrast(NEAR_0, kind, ("a", "b"), Side(before, 0.01, None, 200), Side(after, 0.01, None, 200))
    return replace(found, p_adjusted=found.tested.p_value)


@pytest.mark.parametrize(("before", "after", "verdict", "moved"), [
    (0.20, 0.05, "better", -0.15), (-0.20, -0.05, "better", -0.15), (0.05, 0.20, "worse", 0.15),
    (-0.05, -0.20, "worse", 0.15), (-0.30, 0.02, "better", -0.28), (0.02, -0.30, "worse", 0.28),
    (-0.10, 0.10, "cannot tell", 0.0), (0.10, -0.11, "cannot tell", 0.01), (0.0, 0.2, "worse", 0.2)])  # fmt: skip
def test_nearer_to_0_is_better(before: float, after: float, verdict: str, moved: float) -> None:
    found = _judged(before, after)
    assert (found.verdict, found.difference.value) == (verdict, pytest.approx(moved))
    assert found.difference.low < moved < found.difference.high
    assert (found.before, found.after) == (before, after)  # as they are


def test_values_and_difference_are_of_the_same_questions_and_no_share_differs_by_more_than_all() -> None:
    first = Side(0.25, 0.2, {"a": Value("a", 0.0), "b": Value("b", 0.0), "c": Value("c", 0.0), "d": Value("d", 1.0)})
    second = Side(0.5, 0.3, {"c": Value("c", 1.0), "d": Value("d", 0.0)})
    found = _one("bench/t/plain/acc", first, second)
    assert (found.before, found.after, found.asked, found.tested.n) == (0.5, 0.5, 4, 2)
    assert found.difference.value == 0.0
    assert found.difference.low >= -1
    assert found.difference.high <= 1
