"""Checkpoints that answer items whose difficulty they share, as real ones do."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from scipy.optimize import brentq
from scipy.special import expit

from argosy.core.statistics.intervals import Floats, mean
from argosy.evidence.compare.checkpoints import Checkpoint
from argosy.evidence.gate.check import Verdict, check
from argosy.evidence.gate.config import Gate
from argosy.evidence.gate.subject import Subject
from argosy.evidence.results.rows import Rows
from tests.comparison_fixtures import declared

DIFFICULTY = 3.0  # standard deviation over items, in logits


def judged(rules: Any, new: Subject, reference: Subject | None = None) -> Verdict:
    return check(Gate.model_validate({"rules": rules}), new, reference)


def abilities(items: int, accuracy: float, seed: int, *, cluster: int = 1, spread: float = DIFFICULTY) -> Floats:
    """The probability of each item to be answered right: a logit of its own, and one that a cluster shares.

    With a spread of 3 logits two runs of one model answer alike in 78 of 100 items (correlation 0.54 at 60%).
    """
    rng = np.random.default_rng(seed)
    shared = np.repeat(rng.normal(size=math.ceil(items / cluster)), cluster)[:items]
    own = rng.normal(size=items)
    logits = spread * (math.sqrt(0.5) * (shared + own) if cluster > 1 else own)
    shift = brentq(lambda at: float(expit(logits + at).mean()) - accuracy, -40.0, 40.0)
    found: Floats = expit(logits + shift)
    return found


def answers(probabilities: Floats, seed: int, *, cluster: int = 1) -> list[bool]:
    """One run: items of a cluster are answered by one draw and so err together."""
    rng = np.random.default_rng(seed)
    drawn = np.repeat(rng.random(math.ceil(len(probabilities) / cluster)), cluster)[: len(probabilities)]
    return [bool(value) for value in drawn < probabilities]


def subject(label: str, right: Sequence[bool], *, cluster: int = 1, losses: Mapping[str, Sequence[float]] | None = None,
            task: str = "facts") -> Subject:
    """A checkpoint with these answers, and these losses (nats) of held-out documents of 500 bytes by channel."""
    rows = [{"task": task, "variant": "plain", "id": str(n), "item": str(n), "correct": value, "gold": 0, "chosen": 0,
             "cluster": str(n // cluster), "scores": [0.0, 0.0]} for n, value in enumerate(right)]
    name = f"bench/{task}/plain/acc"
    estimate = mean([float(value) for value in right], [n // cluster for n in range(len(right))])
    metrics, stderr, counts = {name: estimate.value}, {name: estimate.stderr}, {name: estimate.n}
    for channel, nats in (losses or {}).items():
        rows += [{"task": "heldout", "variant": channel, "id": str(n), "nats": value, "bytes": 500, "tokens": 100}
                 for n, value in enumerate(nats)]
        metrics[f"heldout/bpb/{channel}"] = sum(nats) / len(nats) / 500 / math.log(2)
    found = Checkpoint(f"{label}/final", label, label, "final", 0, 0, label=label, metrics=metrics, stderr=stderr,
                       counts=counts, headline={task: ["plain"]}, kinds=declared(metrics))
    found.rows = Rows(rows)
    return Subject(found)
