"""PriDe against a second implementation, and a model that likes places."""

import math
from dataclasses import replace
from random import Random

import numpy as np
import pytest

from argosy.evidence.results.rows import Rows
from evals.chain import parse_chain
from evals.metrics import Answer, answer, metrics
from evals.question import Question
from tests.evaluation_fixtures import make_items

LIKES = (2.0, 0.0, 1.0, -1.0)  # nats for each place


def _ask(questions: list[Question], knows: float, noise: float = 0.0) -> list[Answer]:
    """A model with a preference for places that knows the answer by `knows` nats."""
    rng = Random(0)
    found = []
    for question in questions:
        scores = [LIKES[n] + knows * (n == question.gold) + rng.gauss(0, noise) for n in range(4)]
        found.append(answer(question, scores))
    return [a for a in found if a]


def test_calibration_is_a_share_of_items_in_their_cyclic_orders() -> None:
    questions, _ = parse_chain("pride", {"pride": {"share": 0.25}}).all_questions(make_items(400), 0)
    calibration = [q for q in questions if q.calibration]
    assert len({q.item for q in questions if not q.calibration}) == 400
    assert 60 < len({q.item for q in calibration}) < 140
    for item in {q.item for q in calibration}:
        orders = {q.origin for q in questions if q.item == item}
        assert orders == {tuple((start + n) % 4 for n in range(4)) for start in range(4)}


def test_pride_by_hand_in_numpy() -> None:
    """Zheng et al. 2024: prior of each place from cyclic orders, then dividing by it."""
    questions, _ = parse_chain("pride", {"pride": {"share": 0.3}}).all_questions(make_items(120, seed=4), 0)
    answers = _ask(questions, knows=0.8, noise=1.0)
    by_item: dict[str, list[Answer]] = {}
    for a in answers:
        by_item.setdefault(a.question.item, []).append(a)
    probabilities = {a.question.id: np.exp(a.scores) / np.exp(a.scores).sum() for a in answers}
    priors = []
    for group in by_item.values():
        if len(group) == 4:
            logs = np.mean([np.log(probabilities[a.question.id]) for a in group], axis=0)
            priors.append(np.exp(logs) / np.exp(logs).sum())
    prior = np.mean(priors, axis=0)
    right = []
    for group in by_item.values():
        first = group[0].question
        if len(group) == 4:
            of_option = np.zeros(4)
            for a in group:
                of_option[list(a.question.origin)] += probabilities[a.question.id]
            right.append(of_option.argmax() == first.origin[first.gold])
        else:
            right.append((probabilities[first.id] / prior).argmax() == first.gold)
    found = metrics(answers)
    assert found["acc_pride"].value == np.mean(right)
    assert found["acc"].value == np.mean([a.correct for a in answers if not a.question.calibration])
    assert "consistency" not in found


def test_without_a_calibrated_item_there_is_no_debiased_accuracy() -> None:
    questions, _ = parse_chain("pride", {"pride": {"share": 0.0001}}).all_questions(make_items(20), 0)
    assert not any(q.calibration for q in questions)
    assert "acc_pride" not in metrics(_ask(questions, 1.0))


def test_errors_are_clustered_by_what_items_share() -> None:
    items = [replace(item, cluster=f"c{n // 4}") for n, item in enumerate(make_items(40))]
    questions, _ = parse_chain("plain").all_questions(items, 0)
    answers = []
    for n, question in enumerate(questions):
        right = (n // 4) % 2 == 0  # whole clusters right or wrong
        answers.append(answer(question, [float((place == question.gold) == right) for place in range(4)]))
    found = metrics([a for a in answers if a])["acc"]
    assert (found.value, found.stderr) == (0.5, pytest.approx(0.5 / math.sqrt(10) * math.sqrt(10 / 9)))


def test_reports_pass_over_calibration() -> None:
    row = {"task": "t", "variant": "pride", "item": "i", "correct": True, "chosen": 0, "gold": 0, "scores": [0.0, -1.0]}
    rows = Rows([{**row, "id": "i#0"}, {**row, "id": "i#1", "correct": False, "calibration": True}])
    assert rows.answers["t", "pride"].by_item == {"i": 1.0}
    assert [value.value for value in rows.values("bench/t/pride/acc").values()] == [1.0]
