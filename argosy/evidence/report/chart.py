"""Charts as plain geometry, which the template writes as SVG: they work without a script, and in print.

Lines over training; and one checkpoint against another: a point for each metric with its error cross, and the diagonal
of equal ones."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from argosy.evidence.compare.checkpoints import Checkpoint
from argosy.evidence.compare.entries import Pair
from argosy.evidence.compare.metrics import families, scale_of
from argosy.evidence.compare.test import Contrast
from argosy.evidence.compare.words import short, tested_text

Point = tuple[float, float]
Scale = Callable[[float], float]
LEFT, RIGHT, TOP, BOTTOM = 46, 448, 22, 218
MOST_POINTS = 120  # of a series; a screen shows no more
COLOURS = 8


@dataclass(frozen=True)
class Series:
    """A line."""

    name: str
    points: list[Point]


@dataclass(frozen=True)
class Chart:
    """A chart to draw. marks: vertical lines (x, label), such as where a phase begins; level: a horizontal one."""

    title: str
    note: str
    x_name: str
    series: list[Series]
    marks: list[tuple[float, str]] = field(default_factory=list)
    level: tuple[float, str] | None = None
    unit: str = ""  # of y: "%" for shares, else a word for the tooltip
    x_text: dict[float, str] = field(default_factory=dict)  # what the tooltip calls an x

    def draw(self) -> "Drawing":
        """The geometry."""
        return _draw(self)


@dataclass(frozen=True)
class Drawing:
    """Coordinates in the view box, and what the tooltip needs (`data`)."""

    chart: Chart
    lines: list[tuple[str, int, str, list[Point]]]  # name, colour, path, dots (few points only)
    x_ticks: list[tuple[float, str]]
    y_ticks: list[tuple[float, str]]
    marks: list[tuple[float, str]]
    mark_labels: list[tuple[float, float, str, str]]  # x, y, anchor, text: those that there is room for
    level: tuple[float, str] | None
    data: list[dict[str, object]]
    summary: str


def _draw(chart: Chart) -> Drawing:
    series = [Series(s.name, _thin(s.points)) for s in chart.series]
    series = [s for s in series if s.points]
    scale = 100.0 if chart.unit == "%" else 1.0
    xs = [x for s in series for x, _ in s.points]
    ys = [y * scale for s in series for _, y in s.points] + ([chart.level[0] * scale] if chart.level else [])
    x_ticks, y_ticks = ticks(min(xs), max(xs), 5), ticks(min(ys), max(ys), 5)
    x_of = on_axis(min(xs), max(xs), LEFT, RIGHT)
    y_of = on_axis(y_ticks[0], y_ticks[-1], BOTTOM, TOP)
    lines, data = [], []
    for number, s in enumerate(series):
        at = [(x_of(x), y_of(y * scale)) for x, y in s.points]
        lines.append((s.name, number % COLOURS, path_of(at), at if len(at) <= 24 else []))
        data.append({"n": s.name, "c": number % COLOURS, "p": [
            [*place, chart.x_text.get(x, f"{short(x)} {chart.x_name}"), _exact(y * scale, chart.unit)]
            for place, (x, y) in zip(at, s.points, strict=True)]})
    ends = [(s.name, *(_exact(y * scale, chart.unit) for _, y in (s.points[0], s.points[-1]))) for s in series]
    level = (y_of(chart.level[0] * scale), chart.level[1]) if chart.level else None
    marks = [(x_of(x), label) for x, label in chart.marks if min(xs) <= x <= max(xs)]
    return Drawing(chart, lines, [(x_of(x), short(x)) for x in x_ticks if min(xs) <= x <= max(xs)],
                   [(y_of(y), short(y)) for y in y_ticks], marks, _mark_labels(marks),
                   level, data, "; ".join(f"{name}: {first} to {last}" for name, first, last in ends))


def _exact(value: float, unit: str) -> str:
    return f"{value:.1f} %" if unit == "%" else f"{value:.4g}"


def _mark_labels(marks: Sequence[tuple[float, str]]) -> list[tuple[float, float, str, str]]:
    """In two rows above the plot; a label that would run into another one of its row is left to the tooltip."""
    ends = [-1e9, -1e9]
    found = []
    for x, text in sorted(marks):
        width = 5.2 * len(text)
        start = x + 3 if x + 3 + width <= RIGHT else x - 3 - width
        row = next((r for r, end in enumerate(ends) if start > end + 4), None)
        if row is not None:
            ends[row] = start + width
            found.append((round(start, 1), (TOP - 4.0, TOP - 13.0)[row], "start", text))
    return found


def _thin(points: Sequence[Point]) -> list[Point]:
    """At most MOST_POINTS of the finite ones, the first and the last included."""
    points = [(x, y) for x, y in points if math.isfinite(x) and math.isfinite(y)]
    if len(points) <= MOST_POINTS:
        return points
    return [points[round(i * (len(points) - 1) / (MOST_POINTS - 1))] for i in range(MOST_POINTS)]


def ticks(low: float, high: float, about: int) -> list[float]:
    """Round numbers (1, 2 or 5 times a power of ten) that reach over low to high."""
    if not high > low:
        low, high = low - (abs(low) * 0.1 or 1), high + (abs(high) * 0.1 or 1)
    raw = (high - low) / about
    power = 10.0 ** math.floor(math.log10(raw))
    step = next(m * power for m in (1, 2, 5, 10) if m * power >= raw * 0.999)
    first = math.floor(low / step + 1e-9)
    last = math.ceil(high / step - 1e-9)
    return [round(i * step, 12) for i in range(first, last + 1)]


def on_axis(low: float, high: float, start: float, end: float) -> Scale:
    """Make what turns a value into a coordinate, cut to one decimal."""
    span = high - low
    return lambda value: round(start + ((value - low) / span if span else 0.5) * (end - start), 1)


def path_of(at: Sequence[Point]) -> str:
    """The path of a line in SVG."""
    return "M" + "L".join(f"{x:g} {y:g}" for x, y in at)


ACROSS, UP = (52, 410), (374, 10)  # ends of the axes in a panel of 420 by 420
MOST_LABELS = 14
_LETTER, _LINE = 5.6, 12.0  # size of a label's letters


@dataclass(frozen=True)
class Dot:
    """A metric: its place, the ends of its cross, and what is said of it."""

    x: float
    y: float
    cross: tuple[float, float, float, float] | None  # left, right, top, bottom
    family: int
    verdict: str
    name: str
    text: str
    label: tuple[float, float, str] | None = None  # x, y, anchor


@dataclass(frozen=True)
class Panel:
    """Curves of one unit."""

    title: str
    dots: list[Dot]
    ticks: list[tuple[float, float, str]]  # x, y, text
    families: list[tuple[int, str]]


def panels(pair: Pair) -> list[Panel]:
    """The pair's metrics by unit; those with two metrics at least."""
    groups: dict[str, list[Contrast]] = {}
    for c in pair.contrasts:
        if math.isfinite(c.before + c.after):
            groups.setdefault(scale_of(c.name, c.kind), []).append(c)
    known = families(sorted({c.name for c in pair.contrasts}))
    return [_panel(key, group, pair, known) for key, group in sorted(groups.items(), key=_place) if len(group) > 1]


def _place(group: tuple[str, list[Contrast]]) -> tuple[bool, bool, str]:
    return (group[0] != "%", group[0] != "bits a byte", group[0])


def _panel(key: str, group: Sequence[Contrast], pair: Pair, known: Sequence[str]) -> Panel:
    scale = 100.0 if key == "%" else 1.0
    bounds = {c.name: (_bounds(pair.first.chosen, c), _bounds(pair.second.chosen, c)) for c in group}
    ends = [scale * end for both in bounds.values() for each in both for end in each]
    marks = ticks(min(ends), max(ends), 5)
    across, up = on_axis(marks[0], marks[-1], *ACROSS), on_axis(marks[0], marks[-1], *UP)
    dots = []
    for c in sorted(group, key=lambda c: c.importance):  # the most important are drawn last, on top
        (left, right), (bottom, top) = ([scale * end for end in each] for each in bounds[c.name])
        cross = (across(left), across(right), up(top), up(bottom))
        dots.append(Dot(across(scale * c.before), up(scale * c.after), cross, known.index(c.kind.family), c.verdict,
                        c.name, f"{c.kind.family} {c.kind.short}: {tested_text(c)}, {c.verdict}"))
    places = [(across(m), up(m), short(m)) for m in marks]
    shown = sorted({(d.family, known[d.family]) for d in dots})
    title = {"%": "Shares, %", "probability": "Probabilities"}.get(key, key)
    return Panel(title, _labelled(dots, group), places, shown)


def _bounds(checkpoint: Checkpoint, c: Contrast) -> tuple[float, float]:
    value = checkpoint.metrics[c.name]
    found = checkpoint.interval(c.name)
    return found if found and all(map(math.isfinite, found)) else (value, value)


def _labelled(dots: list[Dot], group: Sequence[Contrast]) -> list[Dot]:
    """Names beside the most important dots that differ beyond noise, where there is room."""
    wanted = [c.name for c in group if c.verdict in ("better", "worse", "changed")][:MOST_LABELS]
    short_of = {c.name: c.kind.short if len({g.kind.family for g in group}) == 1 else f"{c.kind.family} {c.kind.short}"
                for c in group}
    taken = [(d.x - 4, d.y - 4, d.x + 4, d.y + 4) for d in dots]
    labels: dict[str, tuple[float, float, str]] = {}
    by_name = {d.name: d for d in dots}
    for name in wanted:
        d, width = by_name[name], _LETTER * len(short_of[name])
        for x, y, anchor in ((d.x + 8, d.y + 4, "start"), (d.x - 8, d.y + 4, "end"), (d.x + 6, d.y - 8, "start"),
                             (d.x - 6, d.y - 8, "end"), (d.x + 6, d.y + 16, "start"), (d.x - 6, d.y + 16, "end")):
            left = x if anchor == "start" else x - width
            box = (left, y - _LINE + 2, left + width, y + 3)
            inside = ACROSS[0] <= box[0] and box[2] <= ACROSS[1] and UP[1] <= box[1] and box[3] <= UP[0]
            if inside and not any(box[0] < other[2] and other[0] < box[2] and box[1] < other[3] and other[1] < box[3]
                                  for other in taken):
                taken.append(box)
                labels[name] = (round(x, 1), round(y, 1), anchor)
                break
    return [Dot(d.x, d.y, d.cross, d.family, d.verdict, short_of[d.name], d.text, labels.get(d.name)) for d in dots]
