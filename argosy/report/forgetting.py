"""Held-out text before and after a stage: what was learnt, what was forgotten."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from argosy.comparison.rows import newest_of_both
from argosy.comparison.settings import told
from argosy.report.checkpoints import Checkpoint
from argosy.report.paired import ALPHA
from argosy.statistics import Interval, holm, paired_ratio_test

PREFIX = "heldout/bpb/"
Pair = tuple[Checkpoint, Checkpoint]


@dataclass(frozen=True)
class TextChange:
    """Bits a byte of one channel's held-out text, from `first` to `second`. Above zero: the model got worse.

    Both were scored on the same documents by the same suite, and a document that is hard for one is hard for the
    other: a paired t test with documents as its units.

    Attributes:
        documents: how many both were scored on.
        p_adjusted: by Holm's method, over all stages and channels of the comparison.
    """

    first: str
    second: str
    channel: str
    before: float
    after: float
    interval: Interval
    documents: int
    p_value: float
    p_adjusted: float = 1.0

    @property
    def verdict(self) -> str:
        """`forgotten`, `learnt`, or `no difference` that these documents can show."""
        if self.p_adjusted >= ALPHA:
            return "no difference"
        return "forgotten" if self.interval.value > 0 else "learnt"


def text_changes(pairs: Sequence[Pair]) -> list[TextChange]:
    """For each pair (before, after) one for each channel whose documents both were scored on by one suite with the same
    settings: of several, the one that the second was measured with last."""
    found = [change for first, second in pairs for channel in _channels(first, second)
             if (suite := _shared(first, second, channel))
             and (change := _change(first, second, channel, suite)) is not None]
    adjusted = holm({index: change.p_value for index, change in enumerate(found)})
    return [replace(change, p_adjusted=adjusted[index]) for index, change in enumerate(found)]


def not_compared(pairs: Sequence[Pair]) -> list[str]:
    """A sentence for each pair whose channels were measured with different suites, or settings, or documents."""
    return [f"Held-out text ({', '.join(channels)}): {second.label} is not compared to {first.label}, {why}: evaluate "
            "both with the same suite and data."
            for first, second in pairs for why, channels in _reasons(first, second).items()]


def _reasons(first: Checkpoint, second: Checkpoint) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for channel in _channels(first, second):
        suite = _shared(first, second, channel)
        if not suite:
            names = told(_suites(first, channel)[-1], _suites(second, channel)[-1])
            found.setdefault(f"they were measured with {names}", []).append(channel)
        elif _change(first, second, channel, suite) is None:
            found.setdefault("they share less than two documents of the same bytes", []).append(channel)
    return found


def _channels(first: Checkpoint, second: Checkpoint) -> list[str]:
    """Those that both were measured on, by whatever suite."""
    of = [{channel for channels in c.texts.values() for channel in channels} for c in (first, second)]
    return sorted(of[0] & of[1])


def _suites(c: Checkpoint, channel: str) -> list[str]:
    return [suite for suite, channels in c.texts.items() if channel in channels]


def _shared(first: Checkpoint, second: Checkpoint, channel: str) -> str:
    return newest_of_both(_suites(first, channel), _suites(second, channel))


def _change(first: Checkpoint, second: Checkpoint, channel: str, suite: str) -> TextChange | None:
    """None where the documents are not the same: numbers of documents name other texts in another corpus."""
    before, after = first.texts[suite][channel], second.texts[suite][channel]
    same = sorted(before.keys() & after.keys())
    if len(same) < 2 or any(before[name].size != after[name].size for name in same):
        return None
    old, new = [before[name].nats for name in same], [after[name].nats for name in same]
    bits = [before[name].size * math.log(2) for name in same]  # nats over this: bits a byte
    interval, p_value = paired_ratio_test(new, old, bits)
    return TextChange(first.key, second.key, channel, sum(old) / sum(bits), sum(new) / sum(bits), interval, len(same),
                      p_value)
