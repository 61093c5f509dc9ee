"""The files below a URI of any fsspec file system, sent and fetched whole, streamed and checked."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from argosy.errors import InputError
from workflows.argo.remote.requests import RemoteError, Sizes, attempt

T = TypeVar("T")
PIECE = 16 * 2**20  # of a file in memory; S3 takes 10,000 pieces, so those of files above 160 GB are larger
_PIECES, _PIECES_AT_A_TIME = 9000, 4
_DELETE = 1000  # names in a request
_GONE_PAUSES_S = (1.0, 4.0)
_TIMES = ("LastModified", "last_modified", "mtime", "updated", "created")


class Entry(NamedTuple):
    """A file of the store: bytes, and when it was written (seconds since the epoch; 0: unknown)."""

    size: int
    time: float = 0.0


class Remote:
    """What is below `uri`, by paths relative to it.

    Args:
        options: fsspec's, for the file system.
        pause: sleeps between attempts.

    Raises:
        InputError: there is no such file system, or its package is not installed.
    """

    def __init__(self, uri: str, options: Mapping[str, Any], pause: Callable[[float], None] = time.sleep) -> None:
        import fsspec  # only where a store is in an object store

        self.uri = uri.rstrip("/")
        self._pause = pause
        own = {"use_listings_cache": False, "skip_instance_cache": True}
        if self.uri.startswith("file:"):
            own["auto_mkdir"] = True
        try:
            self.fs, self._base = fsspec.core.url_to_fs(self.uri, **own, **_tuned(self.uri), **options)
        except (ImportError, ValueError, TypeError) as error:
            raise InputError(f"storage.uri {self.uri}: {error}") from None
        self._base = self._base.rstrip("/")

    def list(self, below: str = "") -> dict[str, Entry]:
        """All files below the directory `below`, by path."""
        try:
            found = self._try("list", below, lambda: self.fs.find(self._path(below), detail=True))
        except FileNotFoundError:
            return {}
        start = len(self._base) + 1
        return {path[start:]: _entry(info) for path, info in found.items() if not path.endswith(("/", ".part"))}

    def read(self, name: str, end: int | None = None) -> bytes | None:
        """A small file, or its first `end` bytes; None where there is none."""
        try:
            return bytes(self._try("read", name, lambda: self.fs.cat_file(self._path(name), end=end)))
        except FileNotFoundError:
            return None

    def write(self, name: str, data: bytes) -> None:
        """Write a small file."""
        self._existing("write", name, lambda: self.fs.pipe_file(self._path(name), data))

    def create(self, name: str, data: bytes) -> bool:
        """Write a small file unless it exists; whether it did not. Where the file system can, this is one step."""
        try:
            self._existing("create", name, lambda: self.fs.pipe_file(self._path(name), data, mode="create"))
        except FileExistsError:
            return False
        return True

    def upload(self, local: Path, name: str) -> None:
        """Send a file, piece by piece; it appears whole or not at all. One that grows meanwhile may be longer there.

        Raises:
            FileNotFoundError: `local` is gone.
        """
        self._existing("upload", name, lambda: self._upload(local, name), local)

    def download(self, name: str, entry: Entry, local: Path) -> None:
        """Fetch a file, with the time that the store has of it."""
        local.parent.mkdir(parents=True, exist_ok=True)
        part = local.with_name(f".{local.name}.download.tmp")
        try:
            self._existing("download", name, lambda: self._listed(name, entry.size, part))
            if entry.time:
                os.utime(part, (entry.time, entry.time))
            part.replace(local)
        finally:
            part.unlink(missing_ok=True)

    def delete(self, names: Iterable[str]) -> None:
        """Delete files; those that are gone are no error."""
        paths = [self._path(name) for name in names]
        for start in range(0, len(paths), _DELETE):
            some = paths[start : start + _DELETE]
            try:
                self._try("delete", some[0].removeprefix(f"{self._base}/"), partial(self.fs.rm, some))
            except FileNotFoundError:
                continue

    def _upload(self, local: Path, name: str) -> None:
        before = local.stat()
        path = self._path(name)
        pieces = {"chunksize": max(PIECE, -(-before.st_size // _PIECES))} if self.uri.startswith("s3") else {}
        if self.uri.startswith("file:"):  # elsewhere, what is not whole does not appear
            self.fs.put_file(str(local), f"{path}.part")
            self.fs.mv(f"{path}.part", path)
        else:
            self.fs.put_file(str(local), path, **pieces)
        after, there = local.stat(), int(self.fs.info(path)["size"])
        if there != before.st_size and (before.st_size, before.st_mtime_ns) == (after.st_size, after.st_mtime_ns):
            raise Sizes(f"{there} bytes are there, {before.st_size} were sent")

    def _listed(self, name: str, size: int, part: Path) -> None:
        """Fetch what a list named; where it is said to be gone it is asked for again, since busy servers say so too."""
        for pause in _GONE_PAUSES_S:
            try:
                return self._download(name, size, part)
            except FileNotFoundError:
                self._pause(pause)
        return self._download(name, size, part)

    def _download(self, name: str, size: int, part: Path) -> None:
        path = self._path(name)
        if size <= PIECE:
            data = self.fs.cat_file(path)
            if len(data) != size and len(data) != (now := int(self.fs.info(path)["size"])):
                raise Sizes(f"{len(data)} bytes came, {now} are there")
            part.write_bytes(data)
            return

        def fetch(start: int) -> None:
            end = min(start + PIECE, size)
            data = self._try("download", name, lambda: self.fs.cat_file(path, start=start, end=end))
            if len(data) != end - start:
                raise Sizes(f"{len(data)} bytes came of those from {start} to {end}")
            os.pwrite(file.fileno(), data, start)

        with open(part, "wb") as file, ThreadPoolExecutor(_PIECES_AT_A_TIME) as pool:
            for done in [pool.submit(fetch, start) for start in range(0, size, PIECE)]:
                done.result()

    def _existing(self, operation: str, name: str, call: Callable[[], T], local: Path | None = None) -> T:
        """`call`, where a bucket or file that is not there is an error for people."""
        try:
            return self._try(operation, name, call)
        except FileNotFoundError as error:
            if local is not None and not local.exists():
                raise
            if operation == "download":
                raise RemoteError(f"download {self.uri}/{name}: it was there a moment ago, and is no more") from error
            raise InputError(f"{operation} {self.uri}/{name}: there is no such bucket ({error}); make it") from error

    def _try(self, operation: str, name: str, call: Callable[[], T]) -> T:
        return attempt(operation, f"{self.uri}/{name}".rstrip("/"), call, self._pause)

    def _path(self, name: str) -> str:
        return f"{self._base}/{name}".rstrip("/")


def _tuned(uri: str) -> dict[str, Any]:
    """Pieces that are sent at a time: what they take of memory counts for the pod."""
    return {"max_concurrency": _PIECES_AT_A_TIME} if uri.startswith("s3") else {}


def _entry(info: Mapping[str, Any]) -> Entry:
    found = next((info[key] for key in _TIMES if info.get(key)), 0.0)
    if isinstance(found, str):
        found = datetime.fromisoformat(found)
    return Entry(int(info["size"]), found.timestamp() if isinstance(found, datetime) else float(found))
