"""The files below a URI of any fsspec file system, sent and fetched whole, streamed and checked.

The file system's own client repeats requests that fail for a while (s3fs: botocore's standard mode)."""

import contextlib
import os
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple

from argosy.core.errors import ArgosyError, InputError, StepError
from argosy.core.store.remote import stamp_of

ATTEMPTS = 6  # of a request to S3, with back-off up to 20 s
PIECE = 16 * 2**20  # of a file in memory; S3 takes 10,000 pieces, so those of files above 160 GB are larger
_PIECES, _PIECES_AT_A_TIME = 9000, 4
_DELETE = 1000  # names in a request
_TIMES = ("LastModified", "last_modified", "mtime", "updated", "created")
_ANSWERS = (FileNotFoundError, FileExistsError, IsADirectoryError, NotADirectoryError)
_MISTAKES = (TypeError, AttributeError, NameError, LookupError, AssertionError)  # of a program, not of a network
_CREDENTIALS = ("NoCredentialsError", "PartialCredentialsError", "CredentialRetrievalError", "ProfileNotFound")


class RemoteError(StepError):
    """The object store failed for longer than its client waits; the next attempt of the pod may have more luck."""

    exit_code = 75  # EX_TEMPFAIL: another attempt of the pod follows


class Entry(NamedTuple):
    """A file of the store: bytes, when it was written (seconds since the epoch; 0: unknown), and its ETag, hash or
    time, which tells two versions of it apart ("": unknown)."""

    size: int
    time: float = 0.0
    stamp: str = ""


class Remote:
    """The files below `uri`, by paths relative to it.

    Args:
        options: fsspec's, for the file system.

    Raises InputError: there is no such file system, or its package is not installed."""

    def __init__(self, uri: str, options: Mapping[str, Any]) -> None:
        import fsspec  # only where a store is in an object store

        self.uri = uri.rstrip("/")
        own: dict[str, Any] = {"use_listings_cache": False, "skip_instance_cache": True}
        if self.uri.startswith("s3"):  # pieces that are sent at a time take memory of the pod
            retries = {"mode": "standard", "max_attempts": ATTEMPTS}
            own |= {"max_concurrency": _PIECES_AT_A_TIME, "config_kwargs": {"retries": retries}}
        elif self.uri.startswith("file:"):
            own["auto_mkdir"] = True
        try:
            self.fs, base = fsspec.core.url_to_fs(self.uri, **{**own, **options})
        except (ImportError, ValueError, TypeError) as error:
            raise InputError(f"storage.uri {self.uri}: {error}") from None
        self._base = base.rstrip("/")

    def list(self, below: str = "") -> dict[str, Entry]:
        """List all files below the directory `below`, by path."""
        found: dict[str, Any] = {}
        with contextlib.suppress(FileNotFoundError), self._request("list", below):
            found = self.fs.find(self._path(below), detail=True)
        start = len(self._base) + 1
        return {path[start:]: _entry(info) for path, info in found.items()
                if len(path) > start and not path.endswith(("/", ".part"))}  # some find a prefix itself, too

    def read(self, name: str, end: int | None = None) -> bytes | None:
        """Read a small file, or its first `end` bytes; None where there is none."""
        with contextlib.suppress(FileNotFoundError), self._request("read", name):
            return bytes(self.fs.cat_file(self._path(name), end=end))
        return None

    def write(self, name: str, data: bytes) -> None:
        with self._request("write", name, into=True):
            self.fs.pipe_file(self._path(name), data)

    def create(self, name: str, data: bytes) -> bool:
        """Write a small file unless it exists; return whether it did not. Where the file system can, this is atomic."""
        with contextlib.suppress(FileExistsError), self._request("create", name, into=True):
            self.fs.pipe_file(self._path(name), data, mode="create")
            return True
        return False

    def upload(self, local: Path, name: str) -> None:
        """Send a file, piece by piece; it appears whole or not at all. One that grows meanwhile may be longer there.
        Raises FileNotFoundError: `local` is gone."""
        with self._request("upload", name, into=True, local=local):
            before, path = local.stat(), self._path(name)
            if self.uri.startswith("file:"):  # elsewhere, what is not whole does not appear
                self.fs.put_file(str(local), f"{path}.part")
                self.fs.mv(f"{path}.part", path)
            else:
                size = max(PIECE, -(-before.st_size // _PIECES))
                self.fs.put_file(str(local), path, **({"chunksize": size} if self.uri.startswith("s3") else {}))
            after, there = local.stat(), int(self.fs.info(path)["size"])
        if there != before.st_size and (before.st_size, before.st_mtime_ns) == (after.st_size, after.st_mtime_ns):
            raise RemoteError(f"upload {self.uri}/{name}: {there} bytes are there, {before.st_size} were sent")

    def download(self, name: str, entry: Entry, local: Path) -> None:
        """Fetch a file, with the time that the store has of it."""
        local.parent.mkdir(parents=True, exist_ok=True)
        part = local.with_name(f".{local.name}.download.tmp")
        try:
            self.fetch(name, entry, part)
            if entry.time:
                os.utime(part, (entry.time, entry.time))
            part.replace(local)
        finally:
            part.unlink(missing_ok=True)

    def fetch(self, name: str, entry: Entry, part: Path) -> None:
        """Write the bytes of a file to `part`, which may be in any state if this fails."""
        try:
            with self._request("download", name):
                self._fetch(name, entry.size, part)
        except FileNotFoundError as error:
            raise RemoteError(f"download {self.uri}/{name}: it was listed a moment ago, and is gone now") from error

    def entry(self, name: str) -> Entry | None:
        with contextlib.suppress(FileNotFoundError), self._request("look at", name):
            return _entry(self.fs.info(self._path(name)))
        return None

    def delete(self, names: Iterable[str]) -> None:
        names = list(names)
        for start in range(0, len(names), _DELETE):
            some = names[start : start + _DELETE]
            with contextlib.suppress(FileNotFoundError), self._request("delete", some[0]):
                self.fs.rm([self._path(name) for name in some])

    def _fetch(self, name: str, size: int, part: Path) -> None:
        path = self._path(name)
        if size <= PIECE:
            data = self.fs.cat_file(path)
            if len(data) != size and len(data) != (now := int(self.fs.info(path)["size"])):
                raise RemoteError(f"download {self.uri}/{name}: {len(data)} bytes came, {now} are there")
            part.write_bytes(data)
            return

        def fetch(start: int) -> None:
            end = min(start + PIECE, size)
            data = self.fs.cat_file(path, start=start, end=end)
            if len(data) != end - start:
                raise RemoteError(f"download {self.uri}/{name}: {len(data)} bytes came of those from {start} to {end}")
            os.pwrite(file.fileno(), data, start)

        with open(part, "wb") as file, ThreadPoolExecutor(_PIECES_AT_A_TIME) as pool:
            for done in [pool.submit(fetch, start) for start in range(0, size, PIECE)]:
                done.result()

    @contextlib.contextmanager
    def _request(self, operation: str, name: str, *, into: bool = False, local: Path | None = None) -> Iterator[None]:
        """Let errors name operation and URI; a file that is there, or is not, is an answer and goes through.

        `into`: what a request that writes does not find is the bucket, unless the file `local` is gone."""
        what = f"{operation} {self.uri}/{name}".rstrip("/")
        try:
            yield
        except (*_ANSWERS, *_MISTAKES, ArgosyError) as error:
            if not into or not isinstance(error, FileNotFoundError) or (local is not None and not local.exists()):
                raise
            raise InputError(f"{what}: there is no such bucket ({error}); make it") from error
        except Exception as error:  # each file system has its own
            line = f"{what}: {' '.join(f'{type(error).__name__}: {error}'.split())}"
            if isinstance(error, PermissionError) or type(error).__name__ in _CREDENTIALS:
                raise InputError(f"{line}; give the pods credentials that may read, write, list and delete there, in "
                                 "a Secret that the profile names in defaults.secrets") from error
            raise RemoteError(line) from error

    def _path(self, name: str) -> str:
        return f"{self._base}/{name}".rstrip("/")


def _entry(info: Mapping[str, Any]) -> Entry:
    found = next((info[key] for key in _TIMES if info.get(key)), 0.0)
    if isinstance(found, str):
        found = datetime.fromisoformat(found)
    time = found.timestamp() if isinstance(found, datetime) else float(found)
    return Entry(int(info["size"]), time, stamp_of(info))
