"""What an evaluation was measured with, as far as its losses of documents hang on it: its suite, by name and bytes."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from argosy.step_files import read_done

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
    """What names a suite with its settings: losses are compared where it is equal."""
    return f"{suite}{MARK}{settings}" if settings else suite


def told(first: str, second: str) -> str:
    """Two of `measured` for people: `heldout and core`, or that one of them has changed."""
    one, other = (name.partition(MARK)[0] for name in (first, second))
    return f"suite {one}, which changed in between" if one == other else f"suites {one} and {other}"
