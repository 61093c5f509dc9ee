"""How often a gate is wrong: models that are alike fail it rarely, and a real loss is found. The gate itself is run."""

import numpy as np
import pytest

from argosy.evidence.gate.check import Verdict, check
from argosy.evidence.gate.config import Gate
from argosy.evidence.gate.rule import FAILS
from tests.gate_fixtures import abilities, answers, subject

GATE = Gate.model_validate({"rules": ["no_channel_worse", "not_worse"]})
NOT_WORSE = Gate.model_validate({"rules": ["not_worse"]})


def different(found: Verdict) -> bool:
    """Whether a test is significant after the correction, either way."""
    return any((f.p_adjusted or 1.0) < found.gate.alpha for judgement in found.judgements for f in judgement.findings)


@pytest.mark.parametrize("cluster", [1, 4])
def test_identical_models_are_called_different_in_at_most_5_of_100(cluster: int) -> None:
    """1,000 comparisons of a model with itself under another seed: half of single items, half of passages with four."""
    chances = abilities(120, 0.6, 1, cluster=cluster)
    called = failed = 0
    for run in range(500):
        a, b = (subject(str(side), answers(chances, 2 * run + side, cluster=cluster), cluster=cluster)
                for side in (0, 1))
        found = check(NOT_WORSE, b, a)
        called, failed = called + different(found), failed + (found.status == FAILS)
    assert called <= 25
    assert failed <= 17  # worse is one of two ways to differ


def test_many_tests_of_one_gate_are_corrected_together() -> None:
    """Two channels of text and a benchmark, of retrained twins: as rarely different as a single test (5% of 300 is 15,
    and 4 more is a standard deviation)."""
    chances, called = abilities(120, 0.6, 1), 0
    for run in range(300):
        a, b = (subject(str(side), answers(chances, 2 * run + side), losses=losses(2 * run + side)) for side in (0, 1))
        called += different(check(GATE, b, a))
    assert called <= 23


def losses(seed: int) -> dict[str, list[float]]:
    """Documents differ from each other far more than two runs of a model do."""
    hard, own = np.random.default_rng(7), np.random.default_rng(seed)
    return {channel: (500 * 0.7 * (1.2 + hard.normal(0, 0.3, 12) + own.normal(0, 0.02, 12))).tolist()
            for channel in ("code", "zh")}
