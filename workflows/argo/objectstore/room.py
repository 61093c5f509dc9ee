"""Room in a cache of the node, and the locks under which pods share it (`workflows.argo.objectstore.cache`)."""

import contextlib
import fcntl
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import IO

FOLDERS = OBJECTS, NAMES, PARTS, USERS = "objects", "names", "parts", "users"
_GATE = "gate"
_RESERVE = 2**26  # bytes of the disk that are left free
_MARGIN = 20  # where something is evicted, a 20th of the cache becomes free, so that not every file asks for room again


def make_room(root: Path, size: int, need: int) -> int:
    """Evict objects that no pod reads, the least recently used first, until all objects and parts are at most `size`
    bytes and the disk has `need` bytes more; return how many bytes fit beside them, below 0 where they do not."""
    with _locked(root / _GATE, fcntl.LOCK_EX):
        objects = {path.name: path.stat() for path in (root / OBJECTS).iterdir()}
        total = sum(stat.st_size for stat in objects.values()) + _on_their_way(root / PARTS)
        over = max(total - size, need + _RESERVE - shutil.disk_usage(root).free)
        kept = _in_use(root / USERS) if over > 0 else set(objects)
        gone: set[str] = set()
        for digest, stat in sorted(objects.items(), key=lambda item: (item[1].st_atime_ns, item[0])):
            if over + size // _MARGIN > 0 and digest not in kept:
                (root / OBJECTS / digest).unlink()
                gone.add(digest)
                over -= stat.st_size
        for path in (root / NAMES).iterdir() if gone else ():
            with contextlib.suppress(FileNotFoundError):
                if path.read_text() in gone:
                    path.unlink()
        return -over


def _on_their_way(folder: Path) -> int:
    """Return how many bytes pods are fetching; what those that were killed have left goes."""
    total = 0
    for path in folder.iterdir():
        with contextlib.suppress(FileNotFoundError), open(path, "r+b") as file:
            if not try_lock(file.fileno()):
                total += int(path.name.rpartition(".")[2])
            elif is_at(file.fileno(), path):
                path.unlink()
    return total


def _in_use(folder: Path) -> set[str]:
    """Return the digests that living pods read; the lists of dead ones go."""
    found: set[str] = set()
    for path in folder.iterdir():
        with open(path, "r+") as file:
            if try_lock(file.fileno()):
                path.unlink()
            else:
                found.update(file.read().split())
    return found


@contextlib.contextmanager
def shared(root: Path) -> Iterator[None]:
    """Keep others from evicting."""
    with _locked(root / _GATE, fcntl.LOCK_SH):
        yield


@contextlib.contextmanager
def _locked(path: Path, how: int) -> Iterator[None]:
    with open(path, "a+") as file:
        fcntl.flock(file, how)
        yield


def lock(file: IO[str]) -> None:
    """Lock an open file until it is closed, or the process ends."""
    fcntl.flock(file, fcntl.LOCK_EX)


def try_lock(file: int) -> bool:
    """Lock an open file; return whether nobody else holds it."""
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def is_at(file: int, path: Path) -> bool:
    """Tell whether an open file still has its name."""
    with contextlib.suppress(FileNotFoundError):
        return os.path.samestat(os.fstat(file), os.stat(path))
    return False
