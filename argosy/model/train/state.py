"""Resumable states of a step: directories `<prefix><step>` with the sizes of their files, which show damage."""

import json
import shutil
from pathlib import Path

from argosy.core.store.files import read_record, sync

COMPLETE = "complete"  # {file: bytes}; written last
KEPT = 2  # the newest, and the one before: what goes on where the newest is damaged


def latest_state(directory: Path, prefix: str, rank: int = 0) -> Path | None:
    """Return the newest whole state, or None; rank 0 deletes what a crash left half written or a disk has damaged, and
    says which file it was."""
    for path in reversed(_states(directory, prefix)):
        problem = damage(path)
        if not problem:
            return path
        if rank == 0:
            print(f"{problem}: continuing from the state before, or the beginning", flush=True)
            (path / COMPLETE).unlink(missing_ok=True)
            shutil.rmtree(path)
    return None


def mark_complete(path: Path) -> None:
    """Declare the state in `path` complete, its bytes on the disk before the mark."""
    sizes = {}
    for file in sorted(file for file in path.rglob("*") if file.is_file()):
        sync(file)
        sizes[file.relative_to(path).as_posix()] = file.stat().st_size
    (path / COMPLETE).write_text(json.dumps(sizes))
    sync(path / COMPLETE)
    sync(path)


def delete_old(directory: Path, prefix: str) -> None:
    """Delete all states but the newest KEPT; an old one loses its mark before its files."""
    for old in _states(directory, prefix)[:-KEPT]:
        (old / COMPLETE).unlink(missing_ok=True)
        shutil.rmtree(old)


def _states(directory: Path, prefix: str) -> list[Path]:
    return sorted(directory.glob(f"{prefix}*"), key=lambda path: int(path.name.removeprefix(prefix)))


def damage(path: Path) -> str:
    """Say what a state lacks; "" where it is whole."""
    sizes = read_record(path / COMPLETE)
    if not sizes:
        return f"{path} was not written to its end"
    for name, size in sizes.items():
        file = path / name
        if not file.is_file() or file.stat().st_size != size:
            found = f"{file.stat().st_size} bytes" if file.is_file() else "absent"
            return f"{file} is damaged ({found}, {size} were written)"
    return ""
