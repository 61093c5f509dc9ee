"""Which metrics are worth watching at this scale: signal over noise of the lines that are compared."""

from __future__ import annotations

import math

from argosy.comparison.compared import Compared
from argosy.comparison.curves import points
from argosy.comparison.entry import Entry
from argosy.comparison.kinds import chance_of, kind_of
from argosy.comparison.rows import Group
from argosy.statistics import Curve, Point, Watched, worth_watching


def watched(found: Compared, by: str) -> list[Watched]:
    """Of the metrics that are shown and have a line of at least three checkpoints; those to watch first."""
    curves = {name: [c for e in found.entries if (c := _curve(e, name, by)) is not None] for name in found.metrics}
    curves = {name: some for name, some in curves.items() if any(len(c.points) > 2 for c in some)}
    chance = {name: value for name in curves if (value := _chance(found, name)) is not None}
    items = {name: max(e.chosen.counts.get(name, 0) for e in found.entries) for name in curves}
    return worth_watching(curves, chance, items=items, undirected=[n for n in curves if not kind_of(n).better])


def _curve(entry: Entry, name: str, by: str) -> Curve | None:
    errors = {float(c.step if by == "step" else c.tokens): c.stderr.get(name, math.nan) for c in entry.line}
    found = tuple(Point(p[0], p[1], errors.get(p[0], math.nan)) for p in points(entry, name, by))
    return Curve(entry.label, found) if found else None


def _chance(found: Compared, name: str) -> float | None:
    """Of guessing among the options; None for what is no accuracy of a choice."""
    parts = name.split("/")
    if parts[0] != "bench" or len(parts) != 4 or parts[3] != "acc":
        return None
    for entry in found.entries:
        known = entry.chosen.metrics.get(chance_of(name))
        if known is not None:
            return known
        forms: list[str] = entry.forms.get(name, [parts[2]])
        for form in forms:
            group: Group = (parts[1], form)
            for task in (group, (parts[1].rpartition("_")[0], form)):
                rows = [r for r in entry.rows.groups.get(task, ()) if r.get("scores")]
                if rows:
                    return sum(len(r.get("golds") or "1") / len(r["scores"]) for r in rows) / len(rows)
    return None
