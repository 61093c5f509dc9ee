"""A local directory that holds a part of what is below a URI, snapshots of directories that still change, and the cache
of the bucket on the node."""

import contextlib
import fcntl
import hashlib
import os
import resource
import shutil
import time
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import FIRST_EXCEPTION, Future, ThreadPoolExecutor, wait
from fnmatch import fnmatchcase
from pathlib import Path
from typing import IO, NamedTuple, TypeVar

from argosy.core.errors import ArgosyError
from argosy.core.store.files import explain, temporary_of
from argosy.core.store.lease import LEASE, is_current
from argosy.core.store.step_files import ERROR, LOG, NODE, OUTPUTS, PROGRESS, RANK_LOGS, RUN, TRACKING
from workflows.argo.objectstore.files import Entry, Remote

T = TypeVar("T")
SMALL = 2**20
_WORKERS, _LARGE = 32, 2  # at a time: files up to SMALL; larger ones, whose pieces take memory
RECORDS = frozenset({OUTPUTS, NODE, RUN, ERROR, LOG, PROGRESS})
_COPIED = 8 * 2**20  # bytes: what is larger is linked, so that no second copy fills the disk
_TRIES, _PAUSE_S = 10, 0.1
_RESERVE = 2**26  # bytes of the node's disk that are left free


def each(call: Callable[[T], object], items: Iterable[T], size: Callable[[T], int] = lambda item: 0) -> None:
    """Call `call` for every item, large ones first. The first error ends it."""
    small, large = ThreadPoolExecutor(_WORKERS, "transfer"), ThreadPoolExecutor(_LARGE, "transfer-large")
    try:
        started: list[Future[object]] = [(large if size(item) > SMALL else small).submit(call, item)
                                         for item in sorted(items, key=size, reverse=True)]
        for future in wait(started, return_when=FIRST_EXCEPTION).done:
            future.result()
    finally:
        for pool in (small, large):
            pool.shutdown(cancel_futures=True)


class Stamp(NamedTuple):
    """Size, time and inode of a file, which tell two versions of it apart."""

    size: int
    mtime_ns: int
    inode: int


def is_record(name: str) -> bool:
    """Tell whether a path below a step's directory holds by itself: written atomically, or line by line."""
    return name in RECORDS or name.startswith(f"{TRACKING}/") or fnmatchcase(name, RANK_LOGS)


def scan(directory: Path) -> dict[str, Stamp]:
    """Stamp all files below `directory` but temporary ones and locks."""
    found: dict[str, Stamp] = {}
    for root, folders, files in os.walk(directory):
        folders[:] = [name for name in folders if _lasts(name)]
        for path in (os.path.join(root, name) for name in files if _lasts(name)):
            with contextlib.suppress(FileNotFoundError):
                found[os.path.relpath(path, directory)] = _stamp(path)
    return found


def _lasts(name: str) -> bool:
    return name != LEASE and not (name.startswith(".") and (".tmp" in name or name.endswith(".lock")))


def _stamp(path: str | Path) -> Stamp:
    found = os.stat(path)
    return Stamp(found.st_size, found.st_mtime_ns, found.st_ino)


def stage(directory: Path, area: Path, known: dict[str, Stamp]) -> dict[str, Stamp] | None:
    """Copy or link the files of `directory` that differ from `known` below `area`; return all files' stamps.

    None where the step makes and removes files all the time: then nothing of it can be trusted together.
    A file of `area` may still grow, where the step appends to it."""
    for _ in range(_TRIES):
        shutil.rmtree(area, ignore_errors=True)
        found = scan(directory)
        try:
            for name, stamp in found.items():
                if known.get(name) != stamp:
                    (area / name).parent.mkdir(parents=True, exist_ok=True)
                    (os.link if stamp.size > _COPIED else shutil.copyfile)(directory / name, area / name)
        except FileNotFoundError:
            continue
        before, after = ({n: s.inode for n, s in each.items() if not is_record(n)} for each in (found, scan(directory)))
        if before == after:  # no file came, went or was replaced; records may, since they hold by themselves
            return found
        time.sleep(_PAUSE_S)
    return None


class NodeCache:
    """A folder of the node that its pods fetch files through, at most `size` bytes of them (`storage.cache`).

    A file is named by a hash of its URI, path, size and ETag, is read-only, and its access time is its last use. A pod
    holds a shared flock on each file that it reads, and an exclusive one on the part of each that it fetches. The
    kernel drops both with a process: nobody waits for a pod that was killed, and what it left is evicted."""

    def __init__(self, folder: Path, size: int) -> None:
        self._folder, self._size = folder, size
        self._used: dict[str, IO[bytes]] = {}
        self._told = False
        most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))  # a file is open as long as it is in use

    def place(self, remote: Remote, name: str, entry: Entry, local: Path) -> bool:
        """Make `local` a link to a file of the cache.

        False where the cache cannot help (its disk is full or not writable): the file is to be fetched without, and
        one warning has said so. Raises RemoteError: the store could not be read."""
        if not entry.stamp or entry.size > self._size:
            return False
        key = hashlib.sha256(f"{remote.uri}\0{name}\0{entry.size}\0{entry.stamp}".encode()).hexdigest()
        try:
            for folder in (self._folder, local.parent):
                folder.mkdir(parents=True, exist_ok=True)
            if not self._use(key, entry) and not self._fetch(key, remote, name, entry):
                return False
        except (OSError, ArgosyError) as error:
            if (known := explain(error, self._folder)) is None and isinstance(error, ArgosyError):
                raise
            return self._without(str(known or error))
        made = temporary_of(local)
        made.unlink(missing_ok=True)
        made.symlink_to(self._folder / key)
        made.replace(local)
        return True

    def hand_on(self) -> None:
        """Let the program that this process becomes hold the files as long as it runs."""
        for file in self._used.values():
            os.set_inheritable(file.fileno(), True)

    def _without(self, reason: str) -> bool:
        if not self._told:
            print(f"store: warning: cache: {reason}; files are fetched without it", flush=True)
        self._told = True
        return False

    def _use(self, key: str, entry: Entry) -> bool:
        """Hold a file of the cache, which is not evicted then; False where there is none."""
        path = self._folder / key
        with contextlib.ExitStack() as stack:
            try:
                file = stack.enter_context(open(path, "rb"))
            except FileNotFoundError:
                return False
            fcntl.flock(file, fcntl.LOCK_SH)
            if not is_current(file.fileno(), path):
                return False  # evicted at this moment
            os.utime(path, (time.time(), entry.time or time.time()))
            self._used[key] = file
            stack.pop_all()
            return True

    def _fetch(self, key: str, remote: Remote, name: str, entry: Entry) -> bool:
        path, part = self._folder / key, self._folder / f"{key}.{entry.size}"
        with open(part, "ab") as file:
            fcntl.flock(file, fcntl.LOCK_EX)  # until the pod that fetches it has it, has failed, or was killed
            if is_current(file.fileno(), part):
                try:
                    if path.exists():  # another pod was quicker
                        return self._use(key, entry)
                    if not make_room(self._folder, self._size, entry.size):
                        return self._without(f"{self._folder} is full of files in use, or its disk is")
                    remote.fetch(name, entry, part)
                    now = remote.entry(name)
                    if now is None or now.stamp != entry.stamp or not now.size == entry.size == part.stat().st_size:
                        return False  # replaced since it was listed: these may be bytes of both
                    os.fsync(file.fileno())
                    part.chmod(0o444)
                    part.replace(path)
                finally:
                    if is_current(file.fileno(), part):
                        part.unlink()
        return self._use(key, entry)


def make_room(folder: Path, size: int, need: int) -> bool:
    """Evict files that no living pod reads or fetches, the least recently used first, until there are at most `size`
    bytes (parts, the caller's among them, count as whole) and the disk has `need` more; return whether that is so."""
    with open(folder / ".evicting", "ab") as gate:
        fcntl.flock(gate, fcntl.LOCK_EX)
        files = {path: path.stat() for path in folder.iterdir()}
        sizes = {path: int(path.suffix[1:] or stat.st_size) for path, stat in files.items() if path.name[0] != "."}
        over = max(sum(sizes.values()) - size, need + _RESERVE - shutil.disk_usage(folder).free)
        for path in sorted(sizes, key=lambda path: (files[path].st_atime_ns, path.name)):
            with contextlib.suppress(BlockingIOError, FileNotFoundError), open(path, "rb") as file:
                if over > 0:
                    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    path.unlink()
                    over -= sizes[path]
        return over <= 0


class Mirror:
    """A part of the store in a local directory: fetches files, sends changed ones, deletes nothing.

    Args:
        root: the store's directory in this pod, whose paths are those below the URI.
        near: where results of other steps, which do not change any more, are looked for first."""

    def __init__(self, remote: Remote, root: Path, near: NodeCache | None = None) -> None:
        self.remote, self.root, self.near = remote, root, near
        self._known: dict[str, Stamp] = {}

    def pull(self, entries: Mapping[str, Entry], *, results: bool = False) -> None:
        """Fetch files. `results`: of other steps, to be read and never written."""
        near = self.near if results else None

        def one(name: str) -> None:
            entry, local = entries[name], self.root / name
            is_small = entry.size <= SMALL  # a request to the bucket is quicker than links and locks
            if near is None or is_small or not near.place(self.remote, name, entry, local):
                self.remote.download(name, entry, local)
            self.note([name])

        each(one, entries, lambda name: entries[name].size)

    def pull_below(self, *folders: str, wanted: Callable[[str], bool] = lambda name: True) -> None:
        """Fetch all files below some directories."""
        found: dict[str, Entry] = {}
        each(lambda folder: found.update(self.remote.list(folder)), folders)
        self.pull({name: entry for name, entry in found.items() if wanted(name)})

    def push(self, *folders: str) -> None:
        """Send the files below directories that changed since they were fetched."""
        found = {f"{folder}/{name}": stamp for folder in folders for name, stamp in scan(self.root / folder).items()}
        changed = {path: stamp for path, stamp in found.items() if self._known.get(path) != stamp}
        each(lambda name: self.remote.upload(self.root / name, name), changed, lambda name: changed[name].size)
        self._known |= changed

    def note(self, names: Iterable[str]) -> None:
        """Take files as they are now for those of the store."""
        for name in names:
            self._known[name] = _stamp(self.root / name)
