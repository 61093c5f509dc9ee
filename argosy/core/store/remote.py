"""Inputs by URI (`s3://`, `hf://`, `gs://`, ...): listed, opened and identified through fsspec, and paths of this
machine by the same calls. What a store says of a file (size, and ETag, hash or time) identifies it, so that nothing is
read for its identity; files that are packed with zstd, read as a stream."""

import errno
import hashlib
import io
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path, PurePosixPath
from typing import IO, Any, NamedTuple, cast

from argosy.core.errors import InputError, StepError
from argosy.core.lazy import pa

_URI = re.compile(r"([a-z][a-z0-9+.-]*)://", re.IGNORECASE)
_HASHES = ("ETag", "etag", "sha256", "blob_id", "md5Hash", "content_md5", "checksum", "xet_hash", "sha")
_LIBRARIES = ("aiobotocore", "aiohttp", "azure", "botocore", "gcsfs", "google", "httpx", "huggingface_hub", "requests")
_READ = 2**20  # bytes at a time
_TIMES = ("LastModified", "last_modified", "mtime", "updated", "created")


def is_uri(text: str) -> bool:
    """Tell whether an input is a URI and no path."""
    return bool(_URI.match(text))


def expand_input(text: str) -> str:
    """Return a path with ~ as the home, that of `file://...`, or a URI as it is. Raises ValueError: fsspec knows no
    such protocol, or it is of the web, where nothing tells a changed file."""
    if not (match := _URI.match(text)):
        return os.path.expanduser(text)
    if (protocol := match[1].lower()) in ("file", "local"):
        return text[match.end() :]
    if protocol in ("http", "https", "ftp"):
        raise ValueError(f"{text!r} is a URL, allowed: a path, or a URI of a store (s3://, hf://, ...); download "
                         "it first, and give the path of the file")
    from fsspec import available_protocols

    if protocol not in available_protocols():
        raise ValueError(f"{text!r}: there is no protocol {protocol!r}, allowed: a path, or a URI that fsspec knows, "
                         "such as s3://BUCKET/KEY, hf://datasets/ORG/NAME or file:///PATH")
    parts = [part for part in text[match.end() :].split("/") if part]
    if not parts and protocol != "memory":
        raise ValueError(f"{text!r} names nothing in the store, allowed: such as {protocol}://BUCKET/KEY")
    if protocol == "hf" and len(parts) < (3 if parts[0] in ("datasets", "spaces") else 2):
        raise ValueError(f"{text!r} names no repository of the hub, allowed: such as hf://datasets/ORG/NAME")
    return text


class Found(NamedTuple):
    """A file that was found: its path or URI, its name below what was given, and what there is to say of it."""

    path: str
    inner: str
    size: int
    hash: str
    """hash of a URI, by its store; "" for a path"""


def absolute(given: str) -> str:
    """Return an absolute path, or a URI as it is."""
    return given if is_uri(given) else os.path.abspath(given)


def uri_name(uri: str) -> str:
    """Return the last part of a URI's path."""
    return PurePosixPath(uri.split("://", 1)[1].split("?", 1)[0]).name


def find(uri: str, field: str) -> list[Found]:
    """List the files at a URI (a file, or a folder at any depth), in the order of their names. Raises InputError:
    nothing is there, or it may not be read; StepError: its store cannot be reached."""
    with _errors(uri, field):
        system, root = _system(uri)
        system.invalidate_cache()
        infos: dict[str, dict[str, Any]] = system.find(root, detail=True)
        prefix = root.rstrip("/")
        found = [Found(str(system.unstrip_protocol(path)), path.removeprefix(prefix).lstrip("/"),
                       int(info["size"] or 0), stamp_of(info))
                 for path, info in sorted(infos.items()) if info["type"] == "file"]
        if not found:
            raise FileNotFoundError(uri)
    if unknown := [each.path for each in found if not each.hash]:
        raise InputError(f"{field}: the store of {unknown[0]} says neither a hash nor a time of it, so that nothing "
                         "would tell that it has changed: download it, and give the path")
    return found


def names_at(uri: str, field: str) -> list[str]:
    """List the files at a URI by their names below it; [] where none is. Raises InputError, StepError: as `find`."""
    with _errors(uri, field):
        system, root = _system(uri)
        system.invalidate_cache()
        with suppress(FileNotFoundError):
            return sorted(path.removeprefix(root.rstrip("/")).lstrip("/") for path in system.find(root))
        return []


def upload(folder: Path, names: Iterable[str], uri: str, field: str) -> None:
    """Write files below a folder to a URI, each whole or not at all. Raises InputError, StepError: as `find`."""
    with _errors(uri, field):
        system, root = _system(uri)
        for name in names:
            system.put_file(str(folder / name), f"{root.rstrip('/')}/{name}")


def remove(uri: str, names: Iterable[str], field: str) -> None:
    """Remove files below a URI. Raises InputError, StepError: as `find`."""
    with _errors(uri, field):
        system, root = _system(uri)
        for name in names:
            system.rm_file(f"{root.rstrip('/')}/{name}")


def state(path: str) -> tuple[object, ...]:
    """Return what changes when a file changes: of a path its size, time and inode; of a URI what its store says. Raises
    FileNotFoundError: it is gone; OSError: it cannot be read."""
    if not is_uri(path):
        known = os.stat(path)
        return known.st_size, known.st_mtime_ns, known.st_ino
    with _own_errors():
        system, root = _system(path)
        system.invalidate_cache()
        info = system.info(root)
    return int(info["size"] or 0), stamp_of(info)


def identity_of(uri: str, field: str) -> str:
    """Return the identity of a file or folder at a URI: names, sizes and hashes as its store says. Raises InputError,
    StepError: as `find`."""
    found = find(uri, field)
    lines = "".join(f"{each.inner}\0{each.size}\0{each.hash}\n" for each in found)
    return f"{uri_name(uri)}:{hashlib.sha256(lines.encode()).hexdigest()}"


@contextmanager
def open_file(path: str) -> Iterator[IO[bytes]]:
    """Open the bytes of a path or URI."""
    if not is_uri(path):
        with open(path, "rb") as file:
            yield file
        return
    system, root = _system(path)
    with _own_errors(), system.open(root, "rb") as stream:
        yield cast("IO[bytes]", io.BufferedReader(stream, _READ))  # whose readline takes a limit


def read_small(path: str) -> bytes:
    """Read a whole file that is small, of a path or URI."""
    with open_file(path) as file:
        return file.read()


@contextmanager
def _own_errors() -> Iterator[None]:
    """Make OSError of what libraries of stores raise for a network or a login that fails."""
    try:
        yield
    except Exception as error:
        if isinstance(error, OSError) or type(error).__module__.partition(".")[0] not in _LIBRARIES:
            raise
        number = errno.EACCES if "redential" in f"{type(error).__name__} {error}" else errno.EIO
        raise OSError(number, str(error)) from error


@contextmanager
def _errors(uri: str, field: str) -> Iterator[None]:
    try:
        with _own_errors():
            yield
    except FileNotFoundError:
        raise InputError(f"{field}: {uri} does not exist, or holds no file; correct it") from None
    except PermissionError as error:
        raise InputError(f"{field}: {uri} may not be read ({error}); set the credentials that its store takes, such as "
                         "AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and AWS_ENDPOINT_URL of s3://") from None
    except ImportError as error:
        raise InputError(f"{field}: {uri} needs a library that is not installed ({error}); install it, or download the "
                         "files and give their path") from None
    except OSError as error:
        raise StepError(f"{field}: {uri} cannot be reached ({error}): run again") from error


def _system(uri: str) -> tuple[Any, str]:
    from fsspec.core import url_to_fs

    system, root = url_to_fs(uri)
    return system, str(root)


def stamp_of(info: Mapping[str, Any]) -> str:
    """Return what a store says of a file that tells two versions of it apart; "" where it says nothing."""
    for key in (*_HASHES, *_TIMES):
        if value := info.get(key):
            return f"{key}={getattr(value, 'timestamp', lambda: value)()}".replace('"', "")
    lfs = info.get("lfs")
    return f"sha256={lfs['sha256']}" if isinstance(lfs, dict) and "sha256" in lfs else ""


MOST_WINDOW = 2**27  # bytes, as zstd itself takes without --long; pyarrow takes no more
_MAGIC = b"\x28\xb5\x2f\xfd"


def open_zstd(raw: IO[bytes], name: str, block: int) -> IO[bytes]:
    """Open the unpacked bytes of a stream. `name`: as errors call it. `block`: bytes that are read at once. Raises
    InputError, now or while it is read: a frame needs a window of more than MOST_WINDOW bytes."""
    check_window(raw, name)
    return cast("IO[bytes]", io.BufferedReader(_Unpacked(pa.CompressedInputStream(pa.PythonFile(raw, "r"), "zstd"),
                                                         name), block))


def check_window(raw: IO[bytes], name: str) -> None:
    """Check the window that the first frame asks for (RFC 8878, 3.1.1.1.2). Raises InputError: it is too long."""
    head = raw.read(6)
    raw.seek(0)
    if len(head) < 6 or not head.startswith(_MAGIC) or head[4] & 0x20:  # a single segment has none
        return
    base = 1 << (10 + (head[5] >> 3))
    if (needed := base + (base >> 3) * (head[5] & 7)) > MOST_WINDOW:
        raise _too_long(name, f"of {needed // 2**20} MiB")


def _too_long(name: str, which: str) -> InputError:
    return InputError(f"{name} was packed with a window {which} (zstd --long), which takes as much memory to read; "
                      f"allowed: {MOST_WINDOW // 2**20} MiB. Pack it anew: zstd -dc --long=31 FILE | zstd -o NEW.zst")


class _Unpacked(io.RawIOBase):
    """A stream of pyarrow that tells a long window, which is sound, from damage."""

    def __init__(self, stream: Any, name: str) -> None:
        self._stream, self._name = stream, name

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        try:
            part = self._stream.read(len(buffer))
        except OSError as error:
            if "too much memory" in str(error):  # of a frame that is not the first
                raise _too_long(self._name, f"of more than {MOST_WINDOW // 2**20} MiB") from None
            raise
        buffer[: len(part)] = part
        return len(part)

    def close(self) -> None:
        self._stream.close()
        super().close()
