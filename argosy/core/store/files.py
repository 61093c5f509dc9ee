"""Files of the store: read with clear errors, write atomically."""

import contextlib
import errno
import json
import math
import os
import re
import secrets
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from argosy.core.errors import ArgosyError, InputError, StepError

_PROCESS = secrets.token_hex(4)  # process ids are equal in containers
_FULL = (errno.ENOSPC, errno.EDQUOT)
_FULL_TEXTS = ("No space left on device", "Disk quota exceeded", "database or disk is full")
_PART_WRITTEN = re.compile(r"\d+ requested and \d+ written")  # numpy's words for a file that took a part
_MAYBE_FULL = ("inline_container", "PytorchStreamWriter")  # torch does not say why it could not write
RESERVE = ".reserve.tmp"
_RESERVED_BYTES = 2**17
_DENIED = (errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOTDIR, errno.EEXIST, errno.ENAMETOOLONG)


def read_json(path: Path) -> Any:
    """Parse a JSON file. Raises InputError: it is absent or not JSON."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise InputError(f"{path} does not exist") from None
    except ValueError as error:
        raise InputError(f"{path} is not valid JSON: {error}") from None


def read_object(path: Path) -> dict[str, Any]:
    """Parse a JSON file that holds an object. Raises InputError: it is absent, or holds none."""
    value = read_json(path)
    if not isinstance(value, dict):
        raise InputError(f"{path} is not a JSON object")
    return value


def read_record(path: Path | str) -> dict[str, Any]:
    """Read a JSON object that may be absent or broken: {} then. For records that are shown, not relied on."""
    try:
        return parse_object(Path(path).read_bytes())
    except OSError:
        return {}


def parse_object(data: bytes) -> dict[str, Any]:
    """Parse a JSON object; {} where the bytes are none."""
    try:
        value = json.loads(data)
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}


def write_atomic(path: Path, data: str | bytes, *, durable: bool = True) -> None:
    """Write so that a reader, or a crash at any moment, sees the old bytes or the new ones, never a part.

    durable: also survive a power cut (fsync); off for what is only looked at."""
    raw = data.encode() if isinstance(data, str) else data
    temporary = temporary_of(path)
    try:
        with open(temporary, "wb") as file:
            file.write(raw)
            if durable:
                file.flush()
                os.fsync(file.fileno())
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    if durable:
        sync(path.parent)


def temporary_of(path: Path) -> Path:
    """Return where this process prepares `path`, file or directory: a name that no other process has, since one that
    lost its lease may still do the same work; the next holder removes it (`remove_temporaries`)."""
    return path.with_name(f".{path.name}.{os.getpid()}-{_PROCESS}.tmp")


def publish(temporary: Path, target: Path) -> None:
    """Make the directory `temporary` appear as `target` at once, its bytes on the disk before its name."""
    for path in sorted(temporary.rglob("*")):
        if path.is_file():
            sync(path)
    sync(temporary)
    shutil.rmtree(target, ignore_errors=True)
    temporary.rename(target)
    sync(target.parent)


def sync(path: Path) -> None:
    """Make sure that a file's bytes, or a directory's names, are on the disk."""
    directory = os.open(path, os.O_RDONLY)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)


def remove_temporaries(directory: Path) -> None:
    """Remove the files below `directory` whose writer was killed before they were whole; its holder calls this."""
    for path in list(directory.rglob(".*.tmp")):
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path, ignore_errors=True)
        else:
            with contextlib.suppress(FileNotFoundError, NotADirectoryError):
                path.unlink()


def write_json(path: Path, value: Any, *, durable: bool = True) -> None:
    """Write sorted, indented JSON atomically. Raises StepError: a number is NaN or infinite, which JSON has no word for
    and other programs do not read."""
    try:
        text = json.dumps(value, indent=1, sort_keys=True, ensure_ascii=False, allow_nan=False)
    except ValueError:
        wrong = ", ".join(_not_finite(value))
        if not wrong:
            raise
        raise StepError(f"{path.name} would hold numbers that are not finite: {wrong}; training or evaluation has "
                        "diverged: lower learning_rate in the step that made the model") from None
    write_atomic(path, text + "\n", durable=durable)


def json_text(value: Any, **how: Any) -> str:
    """Return JSON that every program reads: NaN and infinity, which JSON lacks, are null. `how`: see json.dumps."""
    how = {"ensure_ascii": False, "allow_nan": False} | how
    try:
        return json.dumps(value, **how)
    except ValueError:
        return json.dumps(_finite(value), **how)


def _finite(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _finite(below) for key, below in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(below) for below in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _not_finite(value: Any, name: str = "") -> Iterator[str]:
    """`<dotted key> is <value>` of each NaN and infinity below `value`."""
    if isinstance(value, float) and not math.isfinite(value):
        yield f"{name or 'the value'} is {value}"
    elif isinstance(value, Mapping):
        for key, below in value.items():
            yield from _not_finite(below, f"{name}.{key}" if name else str(key))
    elif isinstance(value, list | tuple):
        for at, below in enumerate(value):
            yield from _not_finite(below, f"{name}[{at}]")


def make_directory(path: Path) -> Path:
    """Make `path` with its parents and see that it can be written. Raises InputError: it is a file, or may not be
    written; StepError: the disk is full."""
    probe = path / f".write-{os.getpid()}.tmp"
    try:
        path.mkdir(parents=True, exist_ok=True)
        probe.touch()
        probe.unlink()
    except OSError as error:
        known = explain(error, path)
        raise known or InputError(f"{path} cannot be made or written ({error.strerror}): choose another path") from None
    return path


def explain(error: BaseException, directory: Path) -> ArgosyError | None:
    """Return the clear error behind a failed write: a full disk or a path that may not be written; else None.

    Libraries wrap the system's error (safetensors and torch raise their own), so the causes and the text count too."""
    seen: BaseException | None = error
    while seen is not None:
        if _says_full(seen, directory):
            return StepError(f"no space left at {directory} ({_free(directory)}): free some and run again; "
                             "it continues from what is already there")
        if isinstance(seen, OSError) and seen.errno in _DENIED and seen.filename is not None:
            return InputError(f"cannot use {seen.filename}: {seen.strerror}; choose another path, or change its mode")
        seen = seen.__cause__ or seen.__context__
    return None


def _says_full(error: BaseException, directory: Path) -> bool:
    text = str(error)
    if isinstance(error, OSError) and (error.errno in _FULL or _PART_WRITTEN.fullmatch(text)):
        return True
    if any(each in text for each in _FULL_TEXTS):
        return True
    return any(each in text for each in _MAYBE_FULL) and not _takes(directory, 2**20)


def _takes(directory: Path, size: int) -> bool:
    """Tell whether a file of `size` bytes can be written."""
    probe = directory / f".probe-{os.getpid()}.tmp"
    try:
        probe.write_bytes(bytes(size))
    except OSError:
        return False
    finally:
        probe.unlink(missing_ok=True)
    return True


def reserve(directory: Path) -> None:
    """Set space aside, so that the records of a step that fills the disk can say so; nothing where there is none."""
    with contextlib.suppress(OSError):
        (directory / RESERVE).write_bytes(os.urandom(_RESERVED_BYTES))


def use_reserve(directory: Path) -> None:
    """Free the space that `reserve` set aside."""
    with contextlib.suppress(OSError):
        (directory / RESERVE).unlink()


def _free(directory: Path) -> str:
    try:
        return f"{shutil.disk_usage(directory).free / 2**20:.0f} MiB free"
    except OSError:
        return "free space unknown"


def write_tensors(tensors: Mapping[str, Any], path: Path, about: Mapping[str, str]) -> None:
    """Write tensors of torch as safetensors, whose own file only its user could read; `about`: the file's metadata."""
    from safetensors.torch import save_file

    path.touch()
    mode = path.stat().st_mode
    save_file(dict(tensors), path, dict(about))
    with contextlib.suppress(OSError):  # of a file system without modes
        path.chmod(mode)
