"""The checkpoints of a comparison: from which stage, made of which, and what evaluation says of them."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from argosy.contamination.verdict import Seen
from argosy.report.answers import Answers, Published, Text


@dataclass
class Checkpoint:
    """One export, evaluated or not.

    Attributes:
        key: `<digest of the training node>/<export>`.
        label: the stage for its last export, else STAGE/EXPORT; with the digest where two would be equal.
        parent: key of the export that it was trained from: of the same stage, or of the stage before.
        base: key of the last export of the stage before.
        tokens: seen since pretraining began.
        headline: by task, the variants that the evaluation says ask for knowledge.
        orders: by task and item, how likely its right letter is in the published order and in others.
        texts: losses of held-out documents by suite (with its settings: argosy.comparison.settings), channel and id;
            what was measured last is the last.
        seen: by benchmark, whether it has been seen.
    """

    key: str
    digest: str
    stage: str
    name: str
    step: int
    tokens: int
    final: bool = True
    chat: bool = False
    parent: str | None = None
    base: str | None = None
    label: str = ""
    metrics: dict[str, float] = field(default_factory=dict)
    stderr: dict[str, float] = field(default_factory=dict)
    counts: dict[str, int] = field(default_factory=dict)
    left_out: dict[str, dict[str, int]] = field(default_factory=dict)
    answers: dict[tuple[str, str], Answers] = field(default_factory=dict)
    headline: dict[str, list[str]] = field(default_factory=dict)
    orders: dict[str, dict[str, Published]] = field(default_factory=dict)
    texts: dict[str, dict[str, dict[str, Text]]] = field(default_factory=dict)
    seen: dict[str, Seen] = field(default_factory=dict)
    evaluations: list[Path] = field(default_factory=list)

    @property
    def tasks(self) -> list[str]:
        """Tasks whose answers are known item by item."""
        return sorted({task for task, _ in self.answers})

    def variants(self, task: str) -> list[str]:
        """Variants of `task`, the published form first."""
        return sorted((variant for name, variant in self.answers if name == task), key=lambda v: (v != "plain", v))

    def headline_of(self, task: str) -> list[str]:
        """Variants of `task` that make its headline: those that ask for knowledge; all, where nothing says which."""
        named = self.headline.get(task)
        return [v for v in self.variants(task) if v in named] if named else self.variants(task)


@dataclass
class Checkpoints:
    """All of them, parents first, and what could not be read (sentences)."""

    every: list[Checkpoint] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def __getitem__(self, key: str) -> Checkpoint:
        return next(c for c in self.every if c.key == key)

    @property
    def evaluated(self) -> list[Checkpoint]:
        """Those with at least one metric."""
        return [c for c in self.every if c.metrics]

    @property
    def finals(self) -> list[Checkpoint]:
        """The last one of each stage, where it is evaluated."""
        return [c for c in self.evaluated if c.final]

    def line(self, checkpoint: Checkpoint) -> list[Checkpoint]:
        """The checkpoints that led to this one, the first one first."""
        known = {c.key: c for c in self.every}
        found = [checkpoint]
        while (parent := known.get(found[-1].parent or "")) is not None and parent not in found:
            found.append(parent)
        return found[::-1]
