"""Who is best is selected and tested by one number, and the tests know that it was selected; no guesser is."""

from itertools import combinations
from random import Random

import pytest

from argosy.core.statistics.decisions import DECISION, correct
from argosy.evidence.compare.changes import TaskComparison, change, compare, headline_of
from argosy.evidence.compare.checkpoints import Checkpoint, Checkpoints
from argosy.evidence.compare.sentences import stage_sentences
from tests.comparison_fixtures import checkpoint

FORMS = ("plain", "cloze", "reading", "none_control")
KNOWLEDGE = ["cloze", "plain"]


def _checkpoint(name: str, rates: dict[str, float], items: int = 120) -> Checkpoint:
    rows = []
    for form, rate in rates.items():
        rng = Random(f"{name}/{form}")
        for n in range(items):
            right = rng.random() < rate
            rows.append({"task": "facts", "variant": form, "id": f"i{n}", "lang": "en", "correct": right,
                         "chosen": n % 4 if right else (n + 1) % 4, "gold": n % 4, "scores": [0.0] * 4})
    return checkpoint(name, rows, headline={"facts": KNOWLEDGE})


def _task(checkpoints: list[Checkpoint]) -> TaskComparison:
    (task,) = compare(Checkpoints(checkpoints)).tasks
    return task


def _seven() -> list[Checkpoint]:
    return [_checkpoint(f"{n}", dict.fromkeys(FORMS, 0.5) | {"cloze": 0.7}) for n in range(7)]


def test_reading_and_controls_do_not_rank() -> None:
    knows = _checkpoint("knows", {"plain": 0.6, "cloze": 0.8, "reading": 0.2, "none_control": 0.1})
    reads = _checkpoint("reads", {"plain": 0.4, "cloze": 0.4, "reading": 1.0, "none_control": 1.0})
    found = compare(Checkpoints([knows, reads]))
    (task,) = found.tasks
    assert (task.headline, task.best) == (["cloze"], "knows")
    assert [c.verdict for c in task.others] == ["worse"]
    best = next(s.text for s in stage_sentences(found) if s.kind == "best")
    assert "% right in the form cloze (120 items)" in best
    assert "the form is the best one on the other half of the items), corrected over all pairs of candidates" in best


def test_tests_of_the_best_are_corrected_over_all_pairs() -> None:
    checkpoints = _seven()
    task = _task(checkpoints)
    each = {(a.key, b.key): change(headline_of("facts"), a, b, task.headline) for a, b in combinations(checkpoints, 2)}
    raw = {pair: c.tested.p_value for pair, c in each.items() if c and c.tested.p_value is not None}
    adjusted = correct(raw, DECISION)
    assert len(task.others) == 6
    for other in task.others:
        pair = (other.first, other.second)
        assert other.p_adjusted == adjusted[pair if pair in adjusted else pair[::-1]]


@pytest.mark.parametrize(("rates", "forms", "why"), [
    ((0.2, 0.23, 0.22), [KNOWLEDGE] * 3, "nothing is above chance, 25.0 %"),
    ((0.8, 0.8, 0.3), [KNOWLEDGE] * 3, "the highest is not apart from b, by what these items can show"),
    ((0.8, 0.5, 0.3), [["plain"], ["cloze"], ["plain"]], "were asked no form in common"),
    ((0.8, 0.5, 0.3), [KNOWLEDGE] * 3, "")])  # fmt: skip
def test_nothing_is_best_that_is_not_above_chance_and_apart(rates: tuple[float, ...], forms: list[list[str]],
                                                            why: str) -> None:
    every = [_checkpoint(name, dict.fromkeys(own, rate)) for name, rate, own in zip("abc", rates, forms, strict=True)]
    if rates[0] == rates[1]:
        every[0].rows, every[1].rows = every[0].rows, every[0].rows  # the same answers
    found = compare(Checkpoints(every))
    (task,) = found.tasks
    assert (task.best is None) == bool(why)
    assert why in task.no_best
    said = next(s for s in stage_sentences(found) if s.about == "facts")
    assert (said.kind, f"No best on facts: {task.no_best}" in said.text) == (
        ("undecided", True) if why else ("best", False))
