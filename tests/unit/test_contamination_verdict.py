"""The contamination score in words, and as metrics of a LoggedModel and back."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from argosy.comparison.rows import Rows
from argosy.contamination.evidence import seen_of
from argosy.contamination.logged import contamination_metrics, seen_in, without_contamination
from argosy.contamination.verdict import Seen, summary
from argosy.statistics.contamination import Contamination
from tests.unit.test_gate_contamination import rows

SCORE = Contamination("text_order", 0.02, -0.1, 0.14, 0.4, 0.7, 0.06, 296, ())


@pytest.mark.parametrize(("changed", "words"), [
    ({}, "not seen"),
    ({"probability": 0.5}, "memorised: likely"),
    ({"score": 0.9, "low": 0.8, "high": 1.0, "p_value": 1e-9, "probability": 0.83}, "memorised: likely"),
    ({"high": 0.31, "items": 40}, "cannot tell (40 items leave a score of up to +0.31 possible; more would tell)"),
    ({"p_value": 0.03}, "cannot tell (a weak trace (p 0.03); more items, or a calibration of one's own, would tell)"),
    ({"probability": math.nan}, "cannot tell (the calibration says nothing of contaminated models)"),
])  # fmt: skip
def test_words(changed: dict[str, float], words: str) -> None:
    assert Seen("facts", replace(SCORE, **changed)).words == words  # type: ignore[arg-type]


def test_a_checkpoint_is_as_suspicious_as_its_worst_benchmark() -> None:
    clean, seen, unknown = Seen("a", SCORE), Seen("b", replace(SCORE, probability=0.8)), Seen("c", None, "not asked so")
    assert summary({"a": clean, "b": seen, "c": unknown}) == ("likely", "likely: b")
    assert summary({"a": clean, "c": unknown}) == ("cannot tell", "not seen (1 test), cannot tell (1 test)")
    assert summary({"a": clean}) == ("not seen", "not seen (1 test)")
    assert summary({}) == ("cannot tell", "not asked")


def test_mlflow_says_what_the_rows_do() -> None:
    given = rows(1, seen=0.5)
    metrics = contamination_metrics(given)
    here, there = seen_of(Rows(given))["facts"], seen_in({"bench/facts/plain/acc": 0.4, **metrics})["facts"]
    assert here.found is not None
    assert metrics["contamination/facts/score"] == here.found.score
    assert (there.verdict, there.interval) == (here.verdict, here.interval) == ("likely", here.interval)
    assert without_contamination({"bench/facts/plain/acc": 0.4, **metrics}) == {"bench/facts/plain/acc": 0.4}
    assert seen_in({"bench/facts/plain/acc": 0.4}) == {}


def test_a_benchmark_without_measures_cannot_be_told() -> None:
    plain = [row for row in rows(1) if row["variant"] == "plain"]
    assert contamination_metrics(plain) == {}
    seen = seen_of(Rows(plain))["facts"]
    assert seen.verdict == "cannot tell"
    assert seen.why.startswith("has neither memorisation nor a plain and a permuted form: evaluate it with")


def test_forms_of_two_evaluations_are_not_mixed() -> None:
    """The newer one asked the published form alone; the older one's measures are its own."""
    older, newer = rows(1, seen=0.5), [row for row in rows(2) if row["variant"] == "plain"]
    both = Rows()
    both.update(Rows(older))
    both.update(Rows(newer))
    assert seen_of(both) == seen_of(Rows(older))
