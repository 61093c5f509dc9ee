"""A step's directory at one moment, though the step goes on writing."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from argosy.lease import LEASE
from argosy.progress import PROGRESS
from argosy.step_files import ERROR, LOG, NODE, OUTPUTS, RUN, TRACKING

RECORDS = frozenset({OUTPUTS, NODE, RUN, ERROR, LOG, PROGRESS})
_COPIED = 8 * 2**20  # bytes: what is larger is linked, so that no second copy fills the disk
_TRIES, _PAUSE_S = 10, 0.1


class Stamp(NamedTuple):
    """What tells two versions of a file apart."""

    size: int
    mtime_ns: int
    inode: int


def is_record(name: str) -> bool:
    """Whether a path below a step's directory holds by itself: written atomically, or line by line."""
    return name in RECORDS or name.startswith(f"{TRACKING}/")


def scan(directory: Path) -> dict[str, Stamp]:
    """All files below `directory` but temporary ones and locks."""
    return {os.path.relpath(path, directory): stamp for path, stamp in _walk(str(directory))}


def _walk(directory: str) -> Iterator[tuple[str, Stamp]]:
    try:
        entries = list(os.scandir(directory))
    except FileNotFoundError:
        return
    for entry in entries:
        if _is_passing(entry.name):
            continue
        try:
            if entry.is_dir(follow_symlinks=False):
                yield from _walk(entry.path)
            elif entry.is_file():
                found = entry.stat()
                yield entry.path, Stamp(found.st_size, found.st_mtime_ns, found.st_ino)
        except FileNotFoundError:
            continue


def _is_passing(name: str) -> bool:
    return name == LEASE or (name.startswith(".") and (".tmp" in name or name.endswith(".lock")))


def stage(directory: Path, area: Path, known: dict[str, Stamp]) -> dict[str, Stamp] | None:
    """Put the files of `directory` that are other than in `known` below `area`; returns all files' stamps.

    None where the step makes and removes files all the time: then nothing of it can be trusted together.
    A file of `area` may still grow, where the step appends to it.
    """
    for _ in range(_TRIES):
        shutil.rmtree(area, ignore_errors=True)
        found = scan(directory)
        try:
            for name, stamp in found.items():
                if known.get(name) != stamp:
                    _take(directory / name, area / name, stamp.size)
        except FileNotFoundError:
            continue
        if _same(found, scan(directory)):
            return found
        time.sleep(_PAUSE_S)
    return None


def _take(file: Path, target: Path, size: int) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    if size > _COPIED:
        os.link(file, target)
    else:
        shutil.copyfile(file, target)


def _same(before: dict[str, Stamp], after: dict[str, Stamp]) -> bool:
    """Whether no file came, went or was replaced in between; records may, since they hold by themselves."""
    first, second = ({n: s.inode for n, s in each.items() if not is_record(n)} for each in (before, after))
    return first == second
