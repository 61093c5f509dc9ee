"""Panels of one checkpoint against another: a point for each metric with its error cross, and the diagonal of equal
ones."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from argosy.corpus.text.display import short
from argosy.evidence.compare.checkpoints import Checkpoint
from argosy.evidence.compare.entries import Pair
from argosy.evidence.compare.metrics import families, scale_of
from argosy.evidence.compare.test import Contrast
from argosy.evidence.compare.words import tested_text
from argosy.evidence.report.chart import on_axis, ticks

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
