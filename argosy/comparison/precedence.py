"""Which of several evaluations of one checkpoint counts where they asked the same: the last in order."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from argosy.comparison.settings import settings_of
from argosy.step_files import OUTPUTS, RUN
from argosy.storage import read_record

Done = Mapping[str, Any]  # what outputs.json holds
_ASKED = ("checkpoint", "data")  # steps that an evaluation is made from: what is asked, and who


def in_order(evaluations: Sequence[tuple[Path, Done]]) -> list[tuple[Path, Done]]:
    """The newest last; but one of a part of the items (`limit`) comes before those that asked the same suite for more.

    Args:
        evaluations: directories of finished evaluations, with their outputs.json.
    """
    ended = {path: _ended(path) for path, _ in evaluations}

    def place(entry: tuple[Path, Done]) -> tuple[float, float, str]:
        path, done = entry
        more = [ended[other] for other, theirs in evaluations
                if _suite(theirs) == _suite(done) and _limit(theirs) > _limit(done)]  # fmt: skip
        return min([ended[path], *more]), _limit(done), path.name

    return sorted(evaluations, key=place)


def _suite(done: Done) -> tuple[object, ...]:
    made = done["made_from"]
    asked = (str(made["upstream"].get(name)) for name in _ASKED)
    return done["outputs"].get("suite"), settings_of(made), *asked, str(done["outputs"].get("checkpoint"))


def _limit(done: Done) -> float:
    return float(done["made_from"]["config"].get("limit") or "inf")


def _ended(directory: Path) -> float:
    ended = read_record(directory / RUN).get("ended")
    return float(ended) if isinstance(ended, int | float) else (directory / OUTPUTS).stat().st_mtime
