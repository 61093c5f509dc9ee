"""Which of several evaluations of one checkpoint counts where they asked the same: the last in order."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from argosy.comparison.settings import settings_of
from argosy.step_files import ended

Done = Mapping[str, Any]  # what outputs.json holds
_ASKED = ("checkpoint", "data")  # steps that an evaluation is made from: what is asked, and who


def in_order(evaluations: Sequence[tuple[Path, Done]]) -> list[tuple[Path, Done]]:
    """The newest last; but one of a part of the items (`limit`) comes before those that asked the same suite for more.

    Args:
        evaluations: directories of finished evaluations, with their outputs.json.
    """
    known = {path: (_suite(done), _limit(done), ended(path)) for path, done in evaluations}
    alike: dict[tuple[object, ...], list[tuple[float, float]]] = {}  # by suite: how many items, and when
    for suite, limit, at in known.values():
        alike.setdefault(suite, []).append((limit, at))

    def place(entry: tuple[Path, Done]) -> tuple[float, float, str]:
        suite, limit, at = known[entry[0]]
        return min([at, *(when for items, when in alike[suite] if items > limit)]), limit, entry[0].name

    return sorted(evaluations, key=place)


def _suite(done: Done) -> tuple[object, ...]:
    made = done["made_from"]
    asked = (str(made["upstream"].get(name)) for name in _ASKED)
    return done["outputs"].get("suite"), settings_of(made), *asked, str(done["outputs"].get("checkpoint"))


def _limit(done: Done) -> float:
    return float(done["made_from"]["config"].get("limit") or "inf")
