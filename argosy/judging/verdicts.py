"""From preferences in both orders to verdicts, and from verdicts to metrics."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from argosy.judging.length import length_controlled
from argosy.statistics import Interval
from argosy.statistics.intervals import Estimate, mean, share_interval


@dataclass(frozen=True)
class Verdict:
    """Of one prompt.

    Attributes:
        forward: probability that the first model's answer is better, where it stood first.
        backward: the same probability, where it stood second.
        lengths: of both answers, in characters.
        asked: whether the judge was asked; it is not about equal answers.
    """

    id: str
    forward: float
    backward: float
    lengths: tuple[int, int]
    asked: bool = True

    @property
    def preference(self) -> float:
        """Mean of both orders: 1 = the first model's answer."""
        return (self.forward + self.backward) / 2

    @property
    def winner(self) -> str:
        """first or second where both orders say so, else tie."""
        if self.forward > 0.5 and self.backward > 0.5:
            return "first"
        return "second" if self.forward < 0.5 and self.backward < 0.5 else "tie"

    @property
    def score(self) -> float:
        """1, 0.5 or 0: what the winner counts."""
        return {"first": 1.0, "tie": 0.5, "second": 0.0}[self.winner]


def metrics(verdicts: Sequence[Verdict], labels: Mapping[str, str]) -> dict[str, Estimate]:
    """win_rate (ties count a half), wins, ties, losses, preference, win_rate_length_controlled, how often the longer
    answer wins, and with `labels` the agreement with them and Cohen's kappa; of the prompts that the judge was asked
    about, how often both orders agree, and position_bias (probability of what stands first, less a half). Errors are
    standard errors over prompts."""
    if not verdicts:
        return {}
    found = {"win_rate": mean([v.score for v in verdicts]), "preference": mean([v.preference for v in verdicts])}
    for name, winner in (("wins", "first"), ("ties", "tie"), ("losses", "second")):
        found[name] = mean([float(v.winner == winner) for v in verdicts])
    if asked := [v for v in verdicts if v.asked]:
        found["orders_agree"] = mean([float(_side(v.forward) == _side(v.backward)) for v in asked])
        found["position_bias"] = mean([(v.forward - v.backward) / 2 for v in asked])
    decided = [v for v in verdicts if v.winner != "tie" and v.lengths[0] != v.lengths[1]]
    if decided:
        longer = [float((v.winner == "first") == (v.lengths[0] > v.lengths[1])) for v in decided]
        found["longer_wins"] = mean(longer)
    equal = _at_equal_length(verdicts)
    if equal is not None:
        found["win_rate_length_controlled"] = Estimate(equal.value, (equal.high - equal.low) / 3.92, len(verdicts))
    both = [(v.winner, labels[v.id]) for v in verdicts if v.id in labels]
    if both:
        found["agreement"] = mean([float(a == b) for a, b in both])
        found["kappa"] = Estimate(kappa(both), math.nan, len(both))
    return found


def intervals(verdicts: Sequence[Verdict]) -> dict[str, tuple[float, float]]:
    """95 % intervals: of the win rate Wilson's (which has a width also where one model wins all), of the one at equal
    length the bootstrap's."""
    rate = mean([v.score for v in verdicts])
    found = {"win_rate": share_interval(rate.value, rate.stderr, rate.n)}
    equal = _at_equal_length(verdicts)
    return found | ({"win_rate_length_controlled": (equal.low, equal.high)} if equal else {})


def _at_equal_length(verdicts: Sequence[Verdict]) -> Interval | None:
    first, second = [v.lengths[0] for v in verdicts], [v.lengths[1] for v in verdicts]
    return length_controlled([v.score for v in verdicts], first, second)


def kappa(pairs: Sequence[tuple[str, str]]) -> float:
    """Agreement of two raters beyond chance (Cohen 1960); NaN where both always say the same one word."""
    n = len(pairs)
    observed = sum(a == b for a, b in pairs) / n
    first, second = Counter(a for a, _ in pairs), Counter(b for _, b in pairs)
    chance = sum(first[word] * second[word] for word in first) / n**2
    return (observed - chance) / (1 - chance) if chance < 1 else math.nan


def _side(preference: float) -> int:
    return (preference > 0.5) - (preference < 0.5)
