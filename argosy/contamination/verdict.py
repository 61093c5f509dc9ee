"""A contamination score in words, the same wherever it is shown."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from argosy.statistics.contamination import Contamination

LIKELY, NOT_SEEN, CANNOT_TELL = "likely", "not seen", "cannot tell"
WORDS = {LIKELY: "memorised: likely", NOT_SEEN: "not seen", CANNOT_TELL: "cannot tell"}
EVEN = 0.5  # probability from which a benchmark is likely to have been seen: the default bound of the gate's rule
WEAK = 0.05  # p-value of a trace that is no verdict yet
LEAST = 0.3  # four exposures leave scores of 0.37 and more in python -m benchmarks.contamination


@dataclass(frozen=True)
class Seen:
    """What is known of a checkpoint and a benchmark; `found` is None where there is no score, and `reason` says why."""

    task: str
    found: Contamination | None = None
    reason: str = ""

    @property
    def verdict(self) -> str:
        """`likely`: the probability is 0.5 or more (even odds before). `not seen`: the score's interval excludes what
        four exposures leave, and its p-value is no trace. Else `cannot tell`."""
        s = self.found
        if s is None or math.isnan(s.probability):
            return CANNOT_TELL
        if s.probability >= EVEN:
            return LIKELY
        return NOT_SEEN if s.high < LEAST and s.p_value >= WEAK else CANNOT_TELL

    @property
    def why(self) -> str:
        """Why it cannot be told; "" where it can."""
        s = self.found
        if self.verdict != CANNOT_TELL:
            return ""
        if s is None:
            return self.reason
        if math.isnan(s.probability):
            return "the calibration says nothing of contaminated models"
        if s.p_value < WEAK:
            return f"a weak trace (p {s.p_value:.2g}); more items, or a calibration of one's own, would tell"
        return f"{s.items} items leave a score of up to {s.high:+.2f} possible; more would tell"

    @property
    def words(self) -> str:
        """`memorised: likely`, `not seen`, or `cannot tell (why)`."""
        return WORDS[self.verdict] + (f" ({self.why})" if self.why else "")

    @property
    def interval(self) -> str:
        """`+0.91 [+0.86, +0.97]`; `–` without a score."""
        s = self.found
        return f"{s.score:+.2f} [{s.low:+.2f}, {s.high:+.2f}]" if s is not None else "–"

    @property
    def numbers(self) -> str:
        """Score, interval, probability and items in a line."""
        s = self.found
        if s is None:
            return ""
        return f"score {self.interval} (0: as clean models), probability {s.probability:.2f}, {s.items} items"


def likely(found: Mapping[str, Seen]) -> list[str]:
    """The benchmarks that a checkpoint has likely seen."""
    return [task for task, seen in found.items() if seen.verdict == LIKELY]


def has_seen(found: Mapping[str, Seen], metric: str) -> bool:
    """Whether a checkpoint has likely seen the benchmark that a metric is of (or of a part of it)."""
    family, _, rest = metric.partition("/")
    task = rest.partition("/")[0]
    return family == "bench" and any(task == each or task.startswith(f"{each}_") for each in likely(found))


def doubt(metric: str, checkpoints: Mapping[str, Mapping[str, Seen]]) -> str:
    """`; base has likely seen it`, of those (label -> what is known) for which a metric may be memory; "" else."""
    labels = [label for label, found in checkpoints.items() if has_seen(found, metric)]
    return f"; {' and '.join(labels)} {'have' if len(labels) > 1 else 'has'} likely seen it" if labels else ""


def summary(found: Mapping[str, Seen]) -> tuple[str, str]:
    """The verdict of a checkpoint over all of its benchmarks, and in words: `likely: facts`, `not seen (3 tests)`."""
    of = {verdict: [task for task, seen in found.items() if seen.verdict == verdict] for verdict in WORDS}
    if of[LIKELY]:
        return LIKELY, f"{LIKELY}: {', '.join(of[LIKELY])}"
    parts = [f"{verdict} ({len(of[verdict])} test{'s' if len(of[verdict]) > 1 else ''})"
             for verdict in (NOT_SEEN, CANNOT_TELL) if of[verdict]]
    return (CANNOT_TELL if of[CANNOT_TELL] or not found else NOT_SEEN), ", ".join(parts) or "not asked"
