"""A local directory that holds a part of what is below a URI, and snapshots of directories that still change."""

import contextlib
import os
import shutil
import time
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import FIRST_EXCEPTION, Future, ThreadPoolExecutor, wait
from fnmatch import fnmatchcase
from pathlib import Path
from typing import NamedTuple, Protocol, TypeVar

from argosy.core.store.files import temporary_of
from argosy.core.store.lease import LEASE
from argosy.core.store.step_files import ERROR, LOG, NODE, OUTPUTS, PROGRESS, RANK_LOGS, RUN, TRACKING
from workflows.argo.objectstore.files import Entry, Remote

T = TypeVar("T")
SMALL = 2**20
_WORKERS, _LARGE = 32, 2  # at a time: files up to SMALL; larger ones, whose pieces take memory
RECORDS = frozenset({OUTPUTS, NODE, RUN, ERROR, LOG, PROGRESS})
_COPIED = 8 * 2**20  # bytes: what is larger is linked, so that no second copy fills the disk
_TRIES, _PAUSE_S = 10, 0.1


def each(call: Callable[[T], object], items: Iterable[T], size: Callable[[T], int] = lambda item: 0) -> int:
    """Call `call` for every item, large ones first; return their number. The first error ends it."""
    todo = sorted(items, key=size, reverse=True)
    if len(todo) <= 1:
        for item in todo:
            call(item)
        return len(todo)
    small, large = ThreadPoolExecutor(_WORKERS, "transfer"), ThreadPoolExecutor(_LARGE, "transfer-large")
    try:
        started: list[Future[object]] = [
            (large if size(item) > SMALL else small).submit(call, item) for item in todo
        ]
        for future in wait(started, return_when=FIRST_EXCEPTION).done:
            future.result()
    finally:
        for pool in (small, large):
            pool.shutdown(cancel_futures=True)
    return len(todo)


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


def link(local: Path, target: Path) -> None:
    made = temporary_of(local)
    made.unlink(missing_ok=True)
    made.symlink_to(target)
    made.replace(local)


class Near(Protocol):
    """Files of the store that are near a pod, from where it reads them."""

    def place(self, remote: Remote, name: str, entry: Entry, local: Path) -> bool:
        """Make `local` a file of the store; False: it is to be fetched from there."""


class FluidVolume:
    """The store as a Dataset of Fluid shows it, read-only below `root`."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._told = False

    def place(self, remote: Remote, name: str, entry: Entry, local: Path) -> bool:
        """Make `local` a link to a file of the volume. False: the volume does not show it (yet)."""
        found = self._root / name
        try:
            if found.stat().st_size != entry.size:
                return False
        except FileNotFoundError:
            return self._without(f"{self._root} is not mounted") if not self._root.is_dir() else False
        except OSError as error:
            return self._without(str(error))
        local.parent.mkdir(parents=True, exist_ok=True)
        link(local, found)
        return True

    def _without(self, reason: str) -> bool:
        if not self._told:
            print(f"store: warning: fluid: {reason}; files are fetched from the bucket", flush=True)
        self._told = True
        return False


class Mirror:
    """A part of the store in a local directory: fetches files, sends changed ones, deletes nothing.

    Args:
        root: the store's directory in this pod, whose paths are those below the URI.
        near: where results of other steps, which do not change any more, are looked for first."""

    def __init__(self, remote: Remote, root: Path, near: Near | None = None) -> None:
        self.remote, self.root, self._near = remote, root, near
        self._known: dict[str, Stamp] = {}

    def pull(self, entries: Mapping[str, Entry], *, results: bool = False) -> int:
        """Fetch files; return how many bytes. `results`: of other steps, to be read and never written."""
        near = self._near if results else None

        def one(name: str) -> None:
            entry, local = entries[name], self.root / name
            is_small = entry.size <= SMALL  # a request to the bucket is quicker than links, locks and hashes
            if near is None or is_small or not near.place(self.remote, name, entry, local):
                self.remote.download(name, entry, local)
            self.note([name])

        each(one, entries, lambda name: entries[name].size)
        return sum(entry.size for entry in entries.values())

    def pull_below(self, *folders: str, wanted: Callable[[str], bool] = lambda name: True) -> int:
        """Fetch all files below some directories."""
        found: dict[str, Entry] = {}
        each(lambda folder: found.update(self.remote.list(folder)), folders)
        return self.pull({name: entry for name, entry in found.items() if wanted(name)})

    def push(self, *folders: str) -> int:
        """Send the files below directories that changed since they were fetched; return how many."""
        changed: dict[str, Stamp] = {}
        for folder in folders:
            for name, stamp in scan(self.root / folder).items():
                path = f"{folder}/{name}"
                if self._known.get(path) != stamp:
                    changed[path] = stamp
        each(lambda name: self.remote.upload(self.root / name, name), changed, lambda name: changed[name].size)
        self._known |= changed
        return len(changed)

    def note(self, names: Iterable[str]) -> None:
        """Take files as they are now for those of the store."""
        for name in names:
            self._known[name] = _stamp(self.root / name)
