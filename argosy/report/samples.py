"""Items on which two checkpoints differ: a bounded sample, with what was asked and how likely each option was."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from argosy.contamination.verdict import LIKELY
from argosy.report.answers import Row
from argosy.report.checkpoints import Checkpoint
from argosy.report.comparison import Comparison, TaskComparison

EACH_WAY = 4  # items that the second has right and the first wrong, and as many the other way round
MOST_PAIRS = 12


class Asked(NamedTuple):
    """A question as it was asked: the prompt, and the text that each score is of."""

    prompt: str
    options: tuple[str, ...]


Key = tuple[str, str, str]  # task, variant, id of the question


@dataclass(frozen=True)
class Option:
    """One continuation; shares: how its probability compares with the others', for either checkpoint."""

    text: str
    gold: bool
    shares: tuple[float, float]
    chosen: tuple[bool, bool]


@dataclass(frozen=True)
class Sample:
    """One question that one of the two has right."""

    key: Key
    lang: str
    right: str  # label of the one that has it right
    rows: tuple[Row, Row]

    def options(self, asked: Mapping[Key, Asked]) -> list[Option]:
        """Its options; without texts where `asked` does not hold the question."""
        first, second = self.rows
        known = asked.get(self.key)
        texts = known.options if known and len(known.options) == len(first.scores) else [
            f"option {i + 1}" for i in range(len(first.scores))]
        shares = list(zip(_shares(first.scores), _shares(second.scores), strict=True))
        return [Option(text, i == first.gold, shares[i], (i == first.chosen, i == second.chosen))
                for i, text in enumerate(texts)]


@dataclass(frozen=True)
class PairSamples:
    """What is shown of one pair."""

    first: str
    second: str
    gained: int
    lost: int
    samples: list[Sample]


def sample(found: Comparison) -> list[PairSamples]:
    """For each stage against the one before, and for who has seen the test against its reference."""
    result = []
    for task in found.tasks:
        for first, second in _pairs(found, task)[:MOST_PAIRS]:
            pair = _pair(first, second, task.task)
            result += [pair] if pair.samples else []
    return result


def _pairs(found: Comparison, task: TaskComparison) -> list[tuple[Checkpoint, Checkpoint]]:
    keys = [(s.reference, s.checkpoint) for s in task.suspicions if s.reference and s.level == LIKELY]
    keys += [(change.first, change.second) for change in task.stages]
    return [(found.checkpoints[a], found.checkpoints[b]) for a, b in dict.fromkeys(keys)]


def _pair(first: Checkpoint, second: Checkpoint, task: str) -> PairSamples:
    gained: list[Sample] = []
    lost: list[Sample] = []
    for variant in [v for v in second.variants(task) if (task, v) in first.answers]:
        before = {row.id: row for row in first.answers[task, variant].rows}
        for row in second.answers[task, variant].rows:
            old = before.get(row.id)
            if old is not None and old.correct != row.correct and len(old.scores) == len(row.scores) > 0:
                right = second if row.correct else first
                sample = Sample((task, variant, row.id), row.lang, right.label, (old, row))
                (gained if row.correct else lost).append(sample)
    return PairSamples(first.label, second.label, len(gained), len(lost), [*_spread(gained), *_spread(lost)])


def _spread(found: Sequence[Sample]) -> list[Sample]:
    """EACH_WAY of them, evenly over variants and items."""
    if len(found) <= EACH_WAY:
        return list(found)
    return [found[(2 * i + 1) * len(found) // (2 * EACH_WAY)] for i in range(EACH_WAY)]


def _shares(scores: Sequence[float]) -> list[float]:
    highest = max(scores)
    weights = [math.exp(score - highest) for score in scores]
    return [weight / sum(weights) for weight in weights]
