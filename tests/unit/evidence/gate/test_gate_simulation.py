"""How often a gate is wrong: models that are alike fail it rarely, and a real loss is found. The gate itself is run."""

import pytest

from argosy.evidence.gate.check import Verdict, check
from argosy.evidence.gate.config import Gate
from argosy.evidence.gate.rules import FAILS
from tests.gate_fixtures import abilities, answers, subject

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
