"""Notes of events in a store, a file each, where somebody watches for them: a new checkpoint, an alias that moved."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from argosy.core.store.files import make_directory, write_json

CHECKPOINTS, ALIASES = "checkpoints", "aliases"


def events_folder(store: Path, kind: str) -> Path:
    """Name the folder of a store's notes of a kind."""
    return store / ".events" / kind


def watch_events(store: Path) -> None:
    """Make the folders, from when on events are noted."""
    for kind in (CHECKPOINTS, ALIASES):
        make_directory(events_folder(store, kind))


def note_event(store: Path, kind: str, name: str, about: Mapping[str, Any]) -> None:
    """Note an event where somebody watches; its file appears whole, and again for the same name it is no new one."""
    folder = events_folder(store, kind)
    if folder.is_dir():
        path = folder / f"{re.sub(r'[^A-Za-z0-9._@-]+', '_', name)}.json"
        write_json(beside := folder.parent / path.name, about)  # a file renamed in a folder is not new to who polls it
        beside.replace(path)
