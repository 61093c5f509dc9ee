"""Held-out text before and after a stage: what was learnt, what was forgotten."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from argosy.report.checkpoints import Checkpoint
from argosy.report.paired import ALPHA
from argosy.statistics import Interval, holm, paired_ratio_test

PREFIX = "heldout/bpb/"


@dataclass(frozen=True)
class TextChange:
    """Bits a byte of one channel's held-out text, from `first` to `second`. Above zero: the model got worse.

    Both were scored on the same documents, and a document that is hard for one is hard for the other: a paired t test
    with documents as its units.

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


def text_changes(pairs: Sequence[tuple[Checkpoint, Checkpoint]]) -> list[TextChange]:
    """For each pair (before, after) one for each channel whose documents both were scored on."""
    found = [change for first, second in pairs for channel in sorted(first.texts.keys() & second.texts.keys())
             if (change := _change(first, second, channel)) is not None]
    adjusted = holm({index: change.p_value for index, change in enumerate(found)})
    return [replace(change, p_adjusted=adjusted[index]) for index, change in enumerate(found)]


def _change(first: Checkpoint, second: Checkpoint, channel: str) -> TextChange | None:
    """None where the documents are not the same: numbers of documents name other texts in another corpus."""
    before, after = first.texts[channel], second.texts[channel]
    same = sorted(before.keys() & after.keys())
    if len(same) < 2 or any(before[name].size != after[name].size for name in same):
        return None
    old, new = [before[name].nats for name in same], [after[name].nats for name in same]
    bits = [before[name].size * math.log(2) for name in same]  # nats over this: bits a byte
    interval, p_value = paired_ratio_test(new, old, bits)
    return TextChange(first.key, second.key, channel, sum(old) / sum(bits), sum(new) / sum(bits), interval, len(same),
                      p_value)
