"""A cache of the bucket on the node: what one pod has fetched, the others read there (`storage.cache` of a profile).

    v1/objects/<digest>    a file, read-only, by the XXH3 hash of its bytes; its access time is its last use
    v1/names/<key>         the digest of a file of the bucket, of one size and ETag
    v1/parts/<key>.<size>  a file on its way, locked by the pod that fetches it
    v1/users/<pod>         digests of the objects that a pod reads, locked by the pod while it lives
    v1/gate                shared to begin the use of an object, exclusive to evict

Locks are flock's, which the kernel drops with a process: nobody waits for a pod that was killed, and what it left
counts for nothing, since an object appears under its name when it is whole."""

import contextlib
import hashlib
import os
import secrets
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from argosy.core.errors import ArgosyError, StepError
from argosy.core.store.files import explain, write_atomic
from workflows.argo.objectstore.files import Entry, Remote
from workflows.argo.objectstore.mirror import SMALL, link
from workflows.argo.objectstore.room import (
    FOLDERS,
    NAMES,
    OBJECTS,
    PARTS,
    USERS,
    is_at,
    lock,
    make_room,
    shared,
    try_lock,
)

_READ = 2**22
_DIGITS = 32  # of a digest
_SHARES = 8  # pods of a node that fetch at a time
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
        self._is_made = False
        self._free = 0

    def place(self, remote: Remote, name: str, entry: Entry, local: Path) -> bool:
        """Make `local` a file of the store: a link to an object, or a copy of a small one.

        False where the cache cannot help (its disk is full or not writable, the fetch of another pod stands still): it
        is to be fetched without, and a warning has said so. Raises RemoteError: the store could not be read."""
        if not entry.stamp or not 0 < entry.size <= self._size:
            return False
        key = hashlib.sha256(f"{remote.uri}\0{name}\0{entry.size}\0{entry.stamp}".encode()).hexdigest()
        try:
            self._make()
            local.parent.mkdir(parents=True, exist_ok=True)
            return self._use(key, entry, local) or self._fetch(key, remote, name, entry, local)
        except (OSError, ArgosyError) as error:
            known = explain(error, self._root)
            if known is None and isinstance(error, ArgosyError):
                raise
            is_full = isinstance(known, StepError)
            return self._without(f"no space left at {self._root}" if is_full else str(known or error))

    def _make(self) -> None:
        if not self._is_made:
            for folder in FOLDERS:
                (self._root / folder).mkdir(parents=True, exist_ok=True)
            self._is_made = True

    def _without(self, reason: str) -> bool:
        if reason not in self._told:
            self._told.add(reason)
            print(f"store: warning: cache: {reason}; files are fetched without it", flush=True)
        return False

    def _use(self, key: str, entry: Entry, local: Path) -> bool:
        """Let `local` be the object behind a name; False where there is none, or its bytes are not what they were."""
        try:
            digest = (self._root / NAMES / key).read_text()
            if len(digest) != _DIGITS:  # the node lost power
                return False
            found = self._root / OBJECTS / digest
            if entry.size <= SMALL:
                data = found.read_bytes()
                if _hash(data) != digest:
                    return self._damaged(found)
                write_atomic(local, data, durable=False)
                os.utime(local, (entry.time or time.time(),) * 2)
            else:
                if not self._pin(digest) or not self._is_whole(digest, entry.size):
                    return False
                link(local, found)
        except FileNotFoundError:
            return False  # evicted at this moment
        with contextlib.suppress(OSError):  # of another uid
            os.utime(found, (time.time(), entry.time or time.time()))
        return True

    def _is_whole(self, digest: str, size: int) -> bool:
        """Compare an object's bytes with its name, once in the life of this process."""
        found = self._root / OBJECTS / digest
        if digest in self._checked:
            return True
        if found.stat().st_size != size or _hash_file(found) != digest:
            return self._damaged(found)
        self._checked.add(digest)
        return True

    def _damaged(self, found: Path) -> bool:
        if found.name not in self._told:
            self._told.add(found.name)
            print(f"store: warning: {found} is damaged: fetched again", flush=True)
        return False

    def _fetch(self, key: str, remote: Remote, name: str, entry: Entry, local: Path) -> bool:
        with self._turn(key, entry.size) as part:
            if part is None:
                return self._without(f"another pod's fetch of {name} stands still")
            if self._use(key, entry, local):  # that pod has fetched it
                return True
            if not self._has_room(entry.size):
                return self._without(f"{self._root} is full of files in use, or its disk is")
            remote.fetch(name, entry, part)
            now = remote.entry(name)
            if now is None or (now.size, now.stamp) != (entry.size, entry.stamp) or part.stat().st_size != entry.size:
                return False  # replaced since it was listed: these may be bytes of both
            digest = _hash_file(part)
            if entry.size > SMALL:
                self._pin(digest)  # before it can be evicted
            part.replace(self._root / OBJECTS / digest)
            (self._root / OBJECTS / digest).chmod(0o444)
            self._checked.add(digest)
            write_atomic(self._root / NAMES / key, digest, durable=False)
        return self._use(key, entry, local)

    def _has_room(self, need: int) -> bool:
        """Tell whether a file fits, after evicting others: of what was found free, a pod takes a share unasked."""
        with self._lock:
            if need > self._free:
                self._free = make_room(self._root, self._size, need) // _SHARES
                return self._free >= 0
            self._free -= need
            return True

    @contextlib.contextmanager
    def _turn(self, key: str, size: int) -> Iterator[Path | None]:
        """Wait for the right to fetch a file; None where its holder makes no progress."""
        path = self._root / PARTS / f"{key}.{size}"
        seen: object = None
        while True:
            file = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
            try:
                if try_lock(file) and is_at(file, path):
                    try:
                        yield path
                    finally:
                        if is_at(file, path):
                            path.unlink()
                    return
                stat = os.fstat(file)
            finally:
                os.close(file)
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
                with shared(self._root):
                    user = self._user or self._sign_in()
                    user.write(f"{digest}\n")
                    user.flush()
                self._used.add(digest)
        return (self._root / OBJECTS / digest).exists()

    def _sign_in(self) -> IO[str]:
        name = f"{socket.gethostname()}-{os.getpid()}-{secrets.token_hex(4)}"
        self._user = open(self._root / USERS / name, "x+")  # noqa: SIM115  open, and locked, as long as this process is
        lock(self._user)
        return self._user


def _hash(data: bytes) -> str:
    import xxhash  # where a profile has a cache

    return str(xxhash.xxh3_128_hexdigest(data))


def _hash_file(path: Path) -> str:
    import xxhash

    found = xxhash.xxh3_128()
    with open(path, "rb") as file:
        while data := file.read(_READ):
            found.update(data)
    return str(found.hexdigest())
