"""Entries of a comparison: checkpoints with the lines that led to them, pairs of them, and the whole comparison."""

import math
import re
from dataclasses import dataclass, field

from argosy.core.errors import InputError
from argosy.corpus.text.display import short
from argosy.evidence.compare.checkpoints import Checkpoint
from argosy.evidence.compare.metrics import Kind
from argosy.evidence.compare.suspicion import Suspect
from argosy.evidence.compare.test import Contrast

_SIZES = {"": 1, "k": 10**3, "m": 10**6, "b": 10**9, "g": 10**9, "t": 10**12}
_AT = re.compile(r"^(tokens|step)=([0-9]*\.?[0-9]+)([kmbgt]?)$", re.IGNORECASE)


@dataclass
class Entry:
    """One entry of a comparison."""

    name: str
    """name as it was typed"""
    label: str
    """its name on the page; unique"""
    line: list[Checkpoint]
    """evaluated checkpoints that led to the one that was named, which is the last; ordered by tokens"""
    chosen: Checkpoint
    """checkpoint of `line` that is compared"""
    source: str = "store"
    """source of its numbers: `store`, or `MLflow`"""
    model: str = ""
    """id of its LoggedModel in MLflow; "" where that is not known"""
    link: str = ""
    """its page in MLflow's interface"""
    notes: list[str] = field(default_factory=list)
    """sentences to know about it"""


@dataclass(frozen=True)
class At:
    """Point of training at which to compare: by `tokens` or `step`; `value` None: the most that all have reached."""

    by: str = "last"
    value: float | None = None

    @classmethod
    def parse(cls, text: str, by: str = "") -> "At":
        """`last`, `tokens=1.2M` or `step=500`; and --by alone. Raises InputError: it is none of these, or the two
        contradict each other."""
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
        return place_in(checkpoint, self.by)


def choose(entries: list[Entry], at: At) -> None:
    """Set each entry's chosen checkpoint: the nearest at or below the wanted place, which a note names. Raises
    InputError: an entry has none there."""
    if at.by == "last":
        return
    unit = "tokens" if at.by == "tokens" else "steps"
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
            raise InputError(f"{entry.name} has no evaluated checkpoint at or below {at.by}={short(wanted)}; its "
                             f"first is {first.label} at {at.by}={short(at.of(first))}")
        entry.chosen = max(below, key=at.of)
        there = at.of(entry.chosen)
        exact = "exactly there" if there == wanted else f"the nearest at or below {short(wanted)}"
        entry.notes.append(f"{entry.label}: {entry.chosen.label} at {short(there)} {unit}, {exact}.")


SECTIONS = ("better", "worse", "changed", "same", "cannot tell", "untested")


@dataclass
class Pair:
    """An entry against the first; contrasts of the metrics that both have, the most important first."""

    first: Entry
    second: Entry
    contrasts: list[Contrast] = field(default_factory=list)

    def section(self, verdict: str) -> list[Contrast]:
        return [c for c in self.contrasts if c.verdict == verdict]


@dataclass
class Compared:
    """A whole comparison."""

    entries: list[Entry]
    pairs: list[Pair]
    metrics: list[str]
    """names that are shown, by family; those that at least one entry has"""
    hidden: list[str]
    """names that only `--all` shows"""
    alone: list[str]
    """names that only one entry has"""
    tests: int
    """number of p-values that were corrected together"""
    notes: list[str]
    seen: list[Suspect]
    """benchmarks with the contamination of each checkpoint, and the detail"""
    kinds: dict[str, Kind]
    """kinds of all metrics, shown or not"""


Point = tuple[float, float, float | None, float | None]  # x, value, low, high


def place_in(c: Checkpoint, by: str) -> float:
    """The place of a checkpoint in training: its `step`, or its tokens."""
    return float(c.step if by == "step" else c.tokens)


def points(entry: Entry, name: str, by: str = "tokens", start: int = 0) -> list[Point]:
    """A metric along an entry's line, from its `start`-th checkpoint on."""
    found = []
    for c in entry.line[start:]:
        value = value_at(entry, c, name)
        if value is not None and math.isfinite(value):
            low, high = c.interval(name, entry.chosen.forms.get(name, ())) or (None, None)
            found.append((place_in(c, by), value, low, high))
    return found


def value_at(entry: Entry, c: Checkpoint, name: str) -> float | None:
    """A metric of a checkpoint of an entry's line; a headline is over the forms that the comparison has it over."""
    if name in c.metrics or name not in entry.chosen.forms:
        return c.metrics.get(name)
    side = c.side(name, forms=entry.chosen.forms[name])
    return side.value if side is not None else None
