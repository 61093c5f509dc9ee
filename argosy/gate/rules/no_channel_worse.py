"""Held-out text by channel, document by document."""

from __future__ import annotations

from typing import ClassVar, Literal

from argosy.gate.rule import CANNOT_TELL, HOLDS, Finding, Rule, matching
from argosy.gate.subject import Subject
from argosy.gate.worse import NOISE, Margin, not_worse


class NoChannelWorse(Rule):
    """No channel of held-out text costs more bits a byte than the reference's, on the same documents.

    `beyond`: `noise` (a test), or so many bits a byte that must be excluded. `channels`: patterns; default all that the
    reference has.
    """

    name: ClassVar[str] = "no_channel_worse"
    beyond: Literal["noise"] | Margin = "noise"
    channels: tuple[str, ...] = ("*",)

    def look(self, new: Subject, reference: Subject | None, alpha: float) -> list[Finding]:
        """A finding for each channel."""
        if reference is None:
            return [Finding("heldout/bpb", HOLDS, "there is no reference yet, so nothing to be worse than")]
        patterns = [f"heldout/bpb/{channel}" for channel in self.channels]
        names, none = matching(patterns, reference.names())
        margin = None if self.beyond == NOISE else float(self.beyond)
        return [not_worse(name, new, reference, margin, alpha) for name in names] + [
            Finding(pattern, CANNOT_TELL, f"{pattern} is not measured for {reference.label}: evaluate it with a suite "
                    "that has heldout, such as argosy evaluate CHECKPOINT --suite heldout --tokens DIR")
            for pattern in none]
