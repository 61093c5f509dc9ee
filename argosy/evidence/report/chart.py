"""Line charts as plain geometry, which the template writes as SVG: they work without a script, and in print."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from argosy.corpus.text.display import short

Point = tuple[float, float]
Scale = Callable[[float], float]
LEFT, RIGHT, TOP, BOTTOM = 46, 448, 22, 218
MOST_POINTS = 120  # of a series; a screen shows no more
COLOURS = 8


@dataclass(frozen=True)
class Series:
    """A line. bars: low and high end of an error bar at each point, NaN where there is none."""

    name: str
    points: list[Point]
    bars: Sequence[Point] = ()
    joined: bool = True


@dataclass(frozen=True)
class Chart:
    """A chart to draw. marks: vertical lines (x, label), such as where a phase begins; level: a horizontal one;
    own_ticks: whether the ticks are the points' own x, by `x_text`."""

    title: str
    note: str
    x_name: str
    series: list[Series]
    marks: list[tuple[float, str]] = field(default_factory=list)
    level: tuple[float, str] | None = None
    unit: str = ""  # of y: "%" for shares, else a word for the tooltip
    x_text: Mapping[float, str] = field(default_factory=dict)  # what the tooltip calls an x
    own_ticks: bool = False
    y_text: Callable[[float], str] | None = None


@dataclass(frozen=True)
class Drawing:
    """Coordinates in the view box, and what the tooltip needs (`data`)."""

    chart: Chart
    lines: list[tuple[str, int, str, list[Point]]]  # name, colour, path, dots (few points only)
    bars: list[tuple[int, float, float, float]]  # colour, x, low, high
    x_ticks: list[tuple[float, str]]
    y_ticks: list[tuple[float, str]]
    marks: list[tuple[float, str]]
    mark_labels: list[tuple[float, float, str, str]]  # x, y, anchor, text: those that there is room for
    level: tuple[float, str] | None
    data: list[dict[str, object]]
    summary: str


def draw(chart: Chart) -> Drawing:
    series = [s if s.bars else replace(s, points=_thin(s.points)) for s in chart.series]
    series = [s for s in series if s.points]
    scale = 100.0 if chart.unit == "%" else 1.0
    xs = [x for s in series for x, _ in s.points]
    ys = [y * scale for s in series for _, y in s.points] + ([chart.level[0] * scale] if chart.level else [])
    ys += [y for s in series for bar in s.bars for y in bar if math.isfinite(y)]
    y_ticks = ticks(min(ys), max(ys), 5)
    x_of = on_axis(min(xs), max(xs), LEFT, RIGHT)
    y_of = on_axis(y_ticks[0], y_ticks[-1], BOTTOM, TOP)
    exact = chart.y_text or (lambda y: f"{y:.1f} %" if chart.unit == "%" else f"{y:.4g}")
    lines, bars, data = [], [], []
    for number, s in enumerate(series):
        at = [(x_of(x), y_of(y * scale)) for x, y in s.points]
        lines.append((s.name, number % COLOURS, path_of(at) if s.joined else "", at if len(at) <= 24 or s.bars else []))
        bars += [(number % COLOURS, x, y_of(low), y_of(high)) for (x, _), (low, high) in zip(at, s.bars, strict=False)
                 if math.isfinite(low)]
        data.append({"n": s.name, "c": number % COLOURS, "p": [
            [*place, chart.x_text.get(x, f"{short(x)} {chart.x_name}"), exact(y * scale)]
            for place, (x, y) in zip(at, s.points, strict=True)]})
    ends = [(s.name, *(exact(y * scale) for _, y in (s.points[0], s.points[-1]))) for s in series]
    level = (y_of(chart.level[0] * scale), chart.level[1]) if chart.level else None
    marks = [(x_of(x), label) for x, label in chart.marks if min(xs) <= x <= max(xs)]
    own = chart.x_text if chart.own_ticks else {x: short(x) for x in ticks(min(xs), max(xs), 5)}
    x_ticks = [(x_of(x), text) for x, text in sorted(own.items()) if min(xs) <= x <= max(xs)]
    return Drawing(chart, lines, bars, _with_room(x_ticks),
                   [(y_of(y), (chart.y_text or short)(y)) for y in y_ticks], marks, _mark_labels(marks),
                   level, data, "; ".join(f"{name}: {first} to {last}" for name, first, last in ends))


def _with_room(x_ticks: Sequence[tuple[float, str]]) -> list[tuple[float, str]]:
    found: list[tuple[float, str]] = []
    for x, text in x_ticks:
        found += [(x, text)] if not found or x - found[-1][0] > 44 else []
    return found


def _mark_labels(marks: Sequence[tuple[float, str]]) -> list[tuple[float, float, str, str]]:
    """Place labels in two rows above the plot; one that would overlap another of its row is left to the tooltip."""
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
