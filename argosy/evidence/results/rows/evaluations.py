"""Evaluations of a checkpoint: the settings that each was measured with, and the one that counts of several."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from argosy.core.store.step_files import ended, read_done

FILES = ("suite_file", "suite_files")  # of an evaluation's config: stride, numbers of documents, and texts are in them
MARK = "#"


def settings_of(made_from: Mapping[str, Any]) -> str:
    """A digest of the bytes of an evaluation's suite and of the files that it names; "" where it was given by name
    alone, so that they are not known."""
    external = made_from.get("external") or {}
    files = {name: external[name] for name in FILES if external.get(name)}
    return hashlib.sha256(json.dumps(files, sort_keys=True).encode()).hexdigest()[:8] if files else ""


def read_settings(evaluation: Path) -> str:
    """`settings_of` an evaluation's directory; "" where that does not say."""
    return settings_of((read_done(evaluation) or {}).get("made_from", {}))


def measured(suite: str, settings: str) -> str:
    """Name a suite with its settings: losses are compared where the names are equal."""
    return f"{suite}{MARK}{settings}" if settings else suite


def told(first: str, second: str) -> str:
    """Two of `measured` for people: `heldout and core`, or that one of them has changed."""
    one, other = (name.partition(MARK)[0] for name in (first, second))
    return f"suite {one}, which changed in between" if one == other else f"suites {one} and {other}"


Done = Mapping[str, Any]  # what outputs.json holds
_UPSTREAM = ("checkpoint", "data")  # steps that an evaluation is made from: what is asked, and who


def in_order(evaluations: Sequence[tuple[Path, Done]]) -> list[tuple[Path, Done]]:
    """The newest last; but one of a part of the items (`limit`) comes before those that asked the same suite for more.

    `evaluations`: directories of finished evaluations, with their outputs.json."""
    known = {path: (_suite(done), float(done["made_from"]["config"].get("limit") or "inf"), ended(path))
             for path, done in evaluations}
    alike: dict[tuple[object, ...], list[tuple[float, float]]] = {}  # by suite: how many items, and when
    for suite, limit, at in known.values():
        alike.setdefault(suite, []).append((limit, at))

    def place(entry: tuple[Path, Done]) -> tuple[float, float, str]:
        suite, limit, at = known[entry[0]]
        return min([at, *(when for items, when in alike[suite] if items > limit)]), limit, entry[0].name

    return sorted(evaluations, key=place)


def _suite(done: Done) -> tuple[object, ...]:
    made = done["made_from"]
    asked = (str(made["upstream"].get(name)) for name in _UPSTREAM)
    return done["outputs"].get("suite"), settings_of(made), *asked, str(done["outputs"].get("checkpoint"))
