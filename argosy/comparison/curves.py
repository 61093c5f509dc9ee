"""Small multiples: each metric over training, a line and a band of 95 % for each of what is compared."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from argosy.comparison.compared import Compared
from argosy.comparison.entry import Entry
from argosy.comparison.kinds import HEADLINE, chance_of, families, kind_of
from argosy.comparison.text import is_percent, value_text
from argosy.report.chart import short, ticks
from argosy.report.checkpoints import Checkpoint
from argosy.report.intervals import interval

WIDTH, HEIGHT = 300, 168
LEFT, RIGHT, TOP, BOTTOM = 38, 294, 10, 146
SPARK_WIDTH, SPARK_HEIGHT = 84, 22
MANY = 8  # points of a curve, from which on its beginning may be cut
Point = tuple[float, float, float | None, float | None]  # x, value, low, high


@dataclass(frozen=True)
class Line:
    """An entry's curve as paths in the view box; dots: of the chosen checkpoint, and of all where there are few."""

    entry: int
    path: str
    band: str
    dots: list[tuple[float, float, bool]]
    tip: list[list[object]]  # x in the view box, what the tooltip calls it, its value


@dataclass(frozen=True)
class Small:
    """One chart."""

    name: str
    title: str
    unit: str
    x_ticks: list[tuple[float, str]]
    y_ticks: list[tuple[float, str]]
    lines: list[Line]
    summary: str
    chance: float | None = None  # height of what guessing scores


def curves(found: Compared, by: str = "tokens") -> list[tuple[str, list[Small]]]:
    """By family, a chart for each metric that at least one line has at two checkpoints."""
    names = [n for n in found.metrics if any(len(points(e, n, by)) > 1 for e in found.entries)]
    charts = {name: _small(name, found.entries, by) for name in names}
    return [(family, [charts[n] for n in names if kind_of(n).family == family]) for family in families(names)]


def axis(found: Compared) -> str:
    """`tokens`, or `step` where nothing says how many tokens were seen."""
    return "tokens" if any(c.tokens for e in found.entries for c in e.line) else "step"


def shared(entries: Sequence[Entry], number: int) -> int:
    """How many checkpoints at the beginning of an entry's line an earlier entry's curve shows already: a branch is
    drawn from where it leaves, which is the last of them that both have."""
    earlier = {c.key for e in entries[:number] for c in e.line}
    count = next((i for i, c in enumerate(entries[number].line) if c.key not in earlier), len(entries[number].line))
    return max(0, count - 1)


def points(entry: Entry, name: str, by: str = "tokens", start: int = 0) -> list[Point]:
    """A metric along an entry's line, from its `start`-th checkpoint on; a headline is the mean over its forms where
    that is what it is at the end."""
    found = []
    for c in entry.line[start:]:
        value = value_at(entry, c, name)
        if value is not None and math.isfinite(value):
            low, high = interval(c, name) or (None, None)
            found.append((float(c.step if by == "step" else c.tokens), value, low, high))
    return found


def value_at(entry: Entry, c: Checkpoint, name: str) -> float | None:
    """A metric of a checkpoint of an entry's line; a headline as the mean over its forms."""
    value = c.metrics.get(name)
    return _headline(entry, c, name) if value is None and name.endswith(f"/{HEADLINE}/acc") else value


def spark(entries: Sequence[Entry], name: str, by: str) -> list[tuple[int, str]]:
    """Tiny lines for a cell of the table: (entry, path)."""
    series = [(n, points(e, name, by, shared(entries, n))) for n, e in enumerate(entries)]
    series = [(n, p) for n, p in series if len(p) > 1]
    if not series:
        return []
    xs, ys = [q[0] for _, p in series for q in p], [q[1] for _, p in series for q in p]
    across, up = _map(min(xs), max(xs), 1, SPARK_WIDTH - 1), _map(min(ys), max(ys), SPARK_HEIGHT - 2, 2)
    return [(n, _path([(across(q[0]), up(q[1])) for q in p])) for n, p in series]


def _headline(entry: Entry, c: Checkpoint, name: str) -> float | None:
    task = name.split("/")[1]
    forms = entry.forms.get(name, [])
    names = [f"bench/{task}/{form}/acc" for form in forms]
    at_end = [entry.chosen.metrics.get(n) for n in names]
    known = [c.metrics.get(n) for n in names]
    if not forms or None in at_end or None in known:
        return None
    same = abs(_mean(at_end) - entry.chosen.metrics[name]) < 1e-6  # no item that some form lacks
    return _mean(known) if same else None


def _mean(values: Sequence[float | None]) -> float:
    return math.fsum(v for v in values if v is not None) / len(values)


def _small(name: str, entries: Sequence[Entry], by: str) -> Small:
    series = [(n, points(e, name, by, shared(entries, n))) for n, e in enumerate(entries)]
    series = [(n, p) for n, p in series if p]
    scale = 100.0 if is_percent(name) else 1.0
    xs = [q[0] for _, p in series for q in p]
    late = [q for _, p in series for q in _late(p, name)]
    ys = sorted(scale * y for q in late for y in q[1:] if y is not None and math.isfinite(y))
    chance = next((c for e in entries if (c := e.chosen.metrics.get(chance_of(name))) is not None), None)
    ys = sorted([*ys, scale * chance]) if chance is not None and math.isfinite(chance) else ys
    y_ticks = ticks(ys[0], ys[-1], 4)
    said = "; ".join(f"{entries[n].label}: {value_text(name, p[0][1])} to {value_text(name, p[-1][1])}"
                     for n, p in series)
    series = [(n, _below(p, y_ticks[-1] / scale)) for n, p in series]
    across, up = _map(min(xs), max(xs), LEFT, RIGHT), _map(y_ticks[0] / scale, y_ticks[-1] / scale, BOTTOM, TOP)
    lines = [_line(n, p, entries[n], name, by, across, up) for n, p in series]
    labels = [(across(x), short(x)) for x in ticks(min(xs), max(xs), 4) if min(xs) <= x <= max(xs)]
    return Small(name, kind_of(name).short, "%" if scale == 100 else kind_of(name).unit, labels,
                 [(up(y / scale), short(y)) for y in y_ticks], lines, said,
                 up(chance) if chance is not None and math.isfinite(chance) else None)


def _late(found: Sequence[Point], name: str) -> Sequence[Point]:
    """The points that the y axis is made for: of losses, which fall steeply at first, the last three quarters."""
    if kind_of(name).better >= 0 or kind_of(name).share or kind_of(name).centred or len(found) < MANY:
        return found
    return found[len(found) // 4 :]


def _below(found: list[Point], top: float) -> list[Point]:
    """Without the beginning that lies above the axis; the line comes in at its top."""
    start = next((i for i, q in enumerate(found) if q[1] <= top), 0)
    inside = [(x, y, low, None if high is None else min(high, top)) for x, y, low, high in found[start:]]
    if not start:
        return inside
    (x1, y1, *_), (x2, y2, *_) = found[start - 1], found[start]
    return [(x1 + (x2 - x1) * (y1 - top) / (y1 - y2), top, None, None), *inside]


def _line(number: int, found: Sequence[Point], entry: Entry, name: str, by: str, across: Scale, up: Scale) -> Line:
    at = [(across(q[0]), up(q[1])) for q in found]
    banded = [q for q in found if q[2] is not None and q[3] is not None]
    band = ""
    if len(banded) > 1:
        top = [(across(q[0]), up(q[3])) for q in banded if q[3] is not None]
        low = [(across(q[0]), up(q[2])) for q in reversed(banded) if q[2] is not None]
        band = _path([*top, *low]) + "Z"
    chosen = float(entry.chosen.step if by == "step" else entry.chosen.tokens)
    dots = [(*place, q[0] == chosen) for place, q in zip(at, found, strict=True) if q[0] == chosen or len(found) < 4]
    known = {float(c.step if by == "step" else c.tokens) for c in entry.line}
    tip: list[list[object]] = [[place[0], f"{short(q[0])} {by}", _tip(name, q)]
                               for place, q in zip(at, found, strict=True) if q[0] in known]
    return Line(number, _path(at), band, dots, tip)


def _tip(name: str, q: Point) -> str:
    text = value_text(name, q[1])
    return text if q[2] is None else f"{text} [{value_text(name, q[2])}, {value_text(name, q[3])}]"


class Scale:
    """From a value to a coordinate, cut to one decimal."""

    def __init__(self, low: float, high: float, start: float, end: float) -> None:
        self._low, self._span = low, high - low
        self._start, self._size = start, end - start

    def __call__(self, value: float) -> float:
        share = (value - self._low) / self._span if self._span else 0.5
        return round(self._start + share * self._size, 1)


def _map(low: float, high: float, start: float, end: float) -> Scale:
    return Scale(low, high, start, end)


def _path(at: Sequence[tuple[float, float]]) -> str:
    return "M" + "L".join(f"{x:g} {y:g}" for x, y in at)
