"""What earlier nights judged, and whether somebody was told: read from the store, so nothing else has to remember.

A judgement is a step's directory. Evaluations that a finished one counts as new are judged. Whoever was told of its
regressions is in `<store>/.nightly/<its name>.json`, so that a crash between the two loses no alarm.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from argosy.step_files import read_done
from argosy.storage import make_directory, read_record, write_json

FOLDER = ".nightly"


@dataclass(frozen=True)
class Alarm:
    """A judgement with regressions."""

    directory: Path
    judged: list[dict[str, Any]]  # the checkpoints that are worse

    @property
    def sentence(self) -> str:
        """One line of what got worse."""
        first = self.judged[0]
        more = f"; and {len(self.judged) - 1} more" if len(self.judged) > 1 else ""
        many = len(first["regressions"]) - 1
        against = f"is worse than {first['reference']}" if "gate" not in first else "fails the gate"
        return (f"{first['label']} {against}: {first['regressions'][0]}"
                f"{f' and {many} more' if many else ''}{more}; report: {self.directory / 'report.html'}")


def judged_evaluations(store: Path) -> set[str]:
    """Digests of the evaluations of checkpoints that were judged."""
    found: set[str] = set()
    for _, done in _judgements(store):
        digests = done["made_from"]["upstream"].get("evaluations", [])
        for pair in done["made_from"]["config"].get("pairs", []):
            found.update(digests[place] for place in pair["new"] if place < len(digests))
    return found


def alarms(store: Path, by: str) -> list[Alarm]:
    """Regressions that nobody was told of yet, or that `by`, which is tried again, told before."""
    found = []
    for directory, done in _judgements(store):
        worse = [each for each in done["outputs"].get("judged", []) if each.get("regressions")]
        told = read_record(_told(store, directory))
        if worse and (not told or told.get("by") == by):
            found.append(Alarm(directory, worse))
    return found


def told(store: Path, alarm: Alarm, by: str, how: str) -> None:
    """Note that somebody was told."""
    path = _told(store, alarm.directory)
    make_directory(path.parent)
    write_json(path, {"by": by, "how": how})


def _told(store: Path, directory: Path) -> Path:
    return store / FOLDER / f"{directory.name}.json"


def _judgements(store: Path) -> Iterator[tuple[Path, dict[str, Any]]]:
    for directory in sorted(store.glob("judge-*")):
        done = read_done(directory)
        if done is not None and done["made_from"]["step"] == "judge":
            yield directory, done
