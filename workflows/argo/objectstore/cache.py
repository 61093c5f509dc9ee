"""A cache of the bucket on the node: what one pod has fetched, the others read there (`storage.cache` of a profile).

    v1/objects/<digest>    a file, read-only, by the XXH3 hash of its bytes; its access time is its last use
    v1/names/<key>         the digest of a file of the bucket, of one size and ETag
    v1/parts/<key>.<size>  a file on its way, locked by the pod that fetches it
    v1/users/<pod>         digests of the objects that a pod reads, locked by the pod while it lives
    v1/gate                shared to begin the use of an object, exclusive to evict

Locks are flock's, which the kernel drops with a process: nobody waits for a pod that was killed, and what it left
counts for nothing, since an object appears under its name when it is whole."""

import contextlib
import fcntl
import hashlib
import os
import secrets
import shutil
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

from argosy.core.errors import ArgosyError, StepError
from argosy.core.store.files import explain, write_atomic
from workflows.argo.objectstore.files import Entry, Remote
from workflows.argo.objectstore.mirror import link

FOLDERS = OBJECTS, NAMES, PARTS, USERS = "objects", "names", "parts", "users"
_GATE = "gate"
_RESERVE = 2**26  # bytes of the disk that are left free
_DIGITS = 32  # of a digest
_POLL_S = 0.1


class NodeCache:
    """A folder of the node that several pods fetch files through, at most `size` bytes of them.

    Args:
        patience_s: how long another pod's fetch may stand still before a file is fetched past the cache."""

    def __init__(self, folder: Path, size: int, patience_s: float = 60.0) -> None:
        self._root, self._size, self._patience_s = folder / "v1", size, patience_s
        self._lock = threading.Lock()
        self._user: IO[str] | None = None
        self._used: set[str] = set()
        self._checked: set[str] = set()
        self._told: set[str] = set()

    def place(self, remote: Remote, name: str, entry: Entry, local: Path) -> bool:
        """Make `local` a file of the store, a link to an object.

        False where the cache cannot help (its disk is full or not writable, the fetch of another pod stands still): it
        is to be fetched without, and a warning has said so. Raises RemoteError: the store could not be read."""
        if not entry.stamp or entry.size > self._size:
            return False
        key = hashlib.sha256(f"{remote.uri}\0{name}\0{entry.size}\0{entry.stamp}".encode()).hexdigest()
        try:
            for folder in (*(self._root / each for each in FOLDERS), local.parent):
                folder.mkdir(parents=True, exist_ok=True)
            return self._use(key, entry, local) or self._fetch(key, remote, name, entry, local)
        except (OSError, ArgosyError) as error:
            known = explain(error, self._root)
            if known is None and isinstance(error, ArgosyError):
                raise
            is_full = isinstance(known, StepError)
            return self._without(f"no space left at {self._root}" if is_full else str(known or error))

    def _without(self, reason: str) -> bool:
        self._warn(f"cache: {reason}; files are fetched without it")
        return False

    def _warn(self, text: str) -> None:
        if text not in self._told:
            self._told.add(text)
            print(f"store: warning: {text}", flush=True)

    def _use(self, key: str, entry: Entry, local: Path) -> bool:
        """Let `local` be the object behind a name; False where there is none, or its bytes are not what they were."""
        try:
            digest = (self._root / NAMES / key).read_text()
            if len(digest) != _DIGITS:  # the node lost power
                return False
            found = self._root / OBJECTS / digest
            if not self._pin(digest) or not self._is_whole(found, entry.size):
                return False
            link(local, found)
        except FileNotFoundError:
            return False  # evicted at this moment
        with contextlib.suppress(OSError):  # of another uid
            os.utime(found, (time.time(), entry.time or time.time()))
        return True

    def _is_whole(self, found: Path, size: int) -> bool:
        """Compare an object's bytes with its name, once in the life of this process."""
        if found.name not in self._checked:
            if found.stat().st_size != size or _digest(found) != found.name:
                self._warn(f"{found} is damaged: fetched again")
                return False
            self._checked.add(found.name)
        return True

    def _fetch(self, key: str, remote: Remote, name: str, entry: Entry, local: Path) -> bool:
        with self._turn(key, entry.size) as part:
            if part is None:
                return self._without(f"another pod's fetch of {name} stands still")
            if self._use(key, entry, local):  # that pod has fetched it
                return True
            if not make_room(self._root, self._size, entry.size):
                return self._without(f"{self._root} is full of files in use, or its disk is")
            remote.fetch(name, entry, part)
            now = remote.entry(name)
            if now is None or (now.size, now.stamp) != (entry.size, entry.stamp) or part.stat().st_size != entry.size:
                return False  # replaced since it was listed: these may be bytes of both
            digest = _digest(part)
            self._pin(digest)  # before it can be evicted
            part.replace(self._root / OBJECTS / digest)
            (self._root / OBJECTS / digest).chmod(0o444)
            self._checked.add(digest)
            write_atomic(self._root / NAMES / key, digest, durable=False)
        return self._use(key, entry, local)

    @contextlib.contextmanager
    def _turn(self, key: str, size: int) -> Iterator[Path | None]:
        """Wait for the right to fetch a file; None where its holder makes no progress."""
        path = self._root / PARTS / f"{key}.{size}"
        seen: object = None
        while True:
            with open(os.open(path, os.O_RDWR | os.O_CREAT, 0o644), "r+b") as file:
                if _try_lock(file) and _is_at(file, path):
                    try:
                        yield path
                    finally:
                        if _is_at(file, path):
                            path.unlink()
                    return
                stat = os.fstat(file.fileno())
            if seen != (now := (stat.st_ino, stat.st_size, stat.st_mtime_ns)):
                seen, since = now, time.monotonic()
            elif time.monotonic() - since > self._patience_s:
                yield None
                return
            time.sleep(_POLL_S)

    def _pin(self, digest: str) -> bool:
        """Say that this pod reads an object, which is not evicted then; False where there is none."""
        with self._lock:
            if digest not in self._used:
                with _locked(self._root / _GATE, fcntl.LOCK_SH):
                    if self._user is None:  # open, and locked, as long as this process is
                        name = f"{socket.gethostname()}-{os.getpid()}-{secrets.token_hex(4)}"
                        self._user = open(self._root / USERS / name, "x+")  # noqa: SIM115
                        fcntl.flock(self._user, fcntl.LOCK_EX)
                    self._user.write(f"{digest}\n")
                    self._user.flush()
                self._used.add(digest)
        return (self._root / OBJECTS / digest).exists()


def _digest(path: Path) -> str:
    import xxhash  # where a profile has a cache

    with open(path, "rb") as file:
        return hashlib.file_digest(file, xxhash.xxh3_128).hexdigest()  # type: ignore[arg-type]


def make_room(root: Path, size: int, need: int) -> bool:
    """Evict objects that no pod reads, the least recently used first, until all objects and parts (the caller's own is
    one) are at most `size` bytes and the disk has `need` bytes more; return whether they are."""
    with _locked(root / _GATE, fcntl.LOCK_EX):
        objects = {path.name: path.stat() for path in (root / OBJECTS).iterdir()}
        total = sum(stat.st_size for stat in objects.values()) + _on_their_way(root / PARTS)
        over = max(total - size, need + _RESERVE - shutil.disk_usage(root).free)
        kept = _in_use(root / USERS) if over > 0 else set(objects)
        gone: set[str] = set()
        for digest, stat in sorted(objects.items(), key=lambda item: (item[1].st_atime_ns, item[0])):
            if over > 0 and digest not in kept:
                (root / OBJECTS / digest).unlink()
                gone.add(digest)
                over -= stat.st_size
        for path in (root / NAMES).iterdir() if gone else ():
            with contextlib.suppress(FileNotFoundError):
                if path.read_text() in gone:
                    path.unlink()
        return over <= 0


def _on_their_way(folder: Path) -> int:
    """Return how many bytes pods are fetching; what those that were killed have left goes."""
    total = 0
    for path in folder.iterdir():
        with contextlib.suppress(FileNotFoundError), open(path, "r+b") as file:
            if not _try_lock(file):
                total += int(path.name.rpartition(".")[2])
            elif _is_at(file, path):
                path.unlink()
    return total


def _in_use(folder: Path) -> set[str]:
    """Return the digests that living pods read; the lists of dead ones go."""
    found: set[str] = set()
    for path in folder.iterdir():
        with open(path, "r+") as file:
            if _try_lock(file):
                path.unlink()
            else:
                found.update(file.read().split())
    return found


@contextlib.contextmanager
def _locked(path: Path, how: int) -> Iterator[None]:
    with open(path, "a+") as file:
        fcntl.flock(file, how)
        yield


def _try_lock(file: IO[Any]) -> bool:
    """Lock an open file until it is closed; return whether nobody else holds it."""
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _is_at(file: IO[Any], path: Path) -> bool:
    """Tell whether an open file still has its name."""
    with contextlib.suppress(FileNotFoundError):
        return os.path.samestat(os.fstat(file.fileno()), os.stat(path))
    return False
