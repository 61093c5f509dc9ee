"""What is compared: a checkpoint, with the line of checkpoints that led to it."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import cached_property

from argosy.comparison.rows import Rows, read_rows
from argosy.comparison.values import Value
from argosy.errors import InputError
from argosy.report.checkpoints import Checkpoint

_SIZES = {"": 1, "k": 10**3, "m": 10**6, "b": 10**9, "g": 10**9, "t": 10**12}
_AT = re.compile(r"^(tokens|step)=([0-9]*\.?[0-9]+)([kmbgt]?)$", re.IGNORECASE)


@dataclass
class Entry:
    """One of what is compared.

    Attributes:
        name: as it was typed.
        label: what it is called on the page; unique.
        line: evaluated checkpoints that led to the one that was named, which is the last; ordered by tokens.
        chosen: of these, the one that is compared.
        source: where its numbers are from: `store`, or `MLflow`.
        model: id of its LoggedModel in MLflow; "" where that is not known.
        link: its page in MLflow's interface.
        notes: what to know about it, in sentences.
    """

    name: str
    label: str
    line: list[Checkpoint]
    chosen: Checkpoint
    source: str = "store"
    model: str = ""
    link: str = ""
    notes: list[str] = field(default_factory=list)
    headlines: dict[str, dict[str, Value]] = field(default_factory=dict)  # what the headlines are made of
    forms: dict[str, list[str]] = field(default_factory=dict)  # and the variants that each is the mean over

    @cached_property
    def rows(self) -> Rows:
        """Item by item, what the chosen checkpoint answered."""
        return read_rows(self.chosen.evaluations, self.notes)


@dataclass(frozen=True)
class At:
    """Where in training to compare: by `tokens` or `step`; `value` None: the most that all have reached."""

    by: str = "last"
    value: float | None = None

    @classmethod
    def parse(cls, text: str, by: str = "") -> At:
        """`last`, `tokens=1.2M` or `step=500`; and --by alone.

        Raises:
            InputError: it is none of these, or the two contradict each other.
        """
        if not text:
            return cls(by or "last")
        if text == "last":
            if by:
                raise InputError(f"--at last and --by {by} contradict each other: give one of them")
            return cls()
        found = _AT.match(text.replace(",", "").replace("_", ""))
        if not found:
            raise InputError(f"--at {text}: allowed: tokens=N (such as tokens=1.2M), step=N, or last")
        if by and by != found[1].lower():
            raise InputError(f"--at {text} and --by {by} contradict each other: give one of them")
        return cls(found[1].lower(), float(found[2]) * _SIZES[found[3].lower()])

    def of(self, checkpoint: Checkpoint) -> float:
        """The checkpoint's tokens or step."""
        return float(checkpoint.step if self.by == "step" else checkpoint.tokens)


def choose(entries: list[Entry], at: At) -> None:
    """Set each entry's chosen checkpoint: the nearest at or below the wanted place, which a note names.

    Raises:
        InputError: an entry has none there.
    """
    if at.by == "last":
        return
    steps = at.by == "step"  # counted from each stage's start, so only those of the named one's stage
    stages = list(dict.fromkeys(e.chosen.stage for e in entries))
    if steps and at.value is None and len(stages) > 1:
        raise InputError(f"--by step is of one stage, whose steps it counts; these are of {', '.join(stages)}: use "
                         "--by tokens")
    lines = [[c for c in e.line if not steps or c.stage == e.chosen.stage] for e in entries]
    wanted = at.value if at.value is not None else min(max(map(at.of, line)) for line in lines)
    for entry, line in zip(entries, lines, strict=True):
        below = [c for c in line if at.of(c) <= wanted]
        if not below:
            first = min(line, key=at.of)
            raise InputError(f"{entry.name} has no evaluated checkpoint at or below {at.by}={_short(wanted)}; its "
                             f"first is {first.label} at {at.by}={_short(at.of(first))}")
        entry.chosen = max(below, key=at.of)
        there = at.of(entry.chosen)
        exact = "exactly there" if there == wanted else f"the nearest at or below {_short(wanted)}"
        entry.notes.append(f"{entry.label}: {entry.chosen.label} at {_short(there)} {_word(at)}, {exact}.")


def _word(at: At) -> str:
    return "tokens" if at.by == "tokens" else "steps"


def _short(value: float) -> str:
    from argosy.report.chart import short

    return short(value)
