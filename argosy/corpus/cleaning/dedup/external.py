"""Sorting of more records than fit into memory: shared out to files by their key's first bits, sorted file by file."""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from argosy.core.lazy import Array, np

_FILES = 256  # that are open at once
_COPIES = 4  # of its records that a sort holds: themselves, their order, sorted ones, and what looks at them


@dataclass(frozen=True)
class Workspace:
    """A directory for what does not fit into memory, and how much memory may be taken for one table."""

    directory: Path
    memory_mb: float = 1024

    @property
    def bytes(self) -> int:
        """Return the memory in bytes."""
        return int(self.memory_mb * 2**20)

    def array(self, name: str, shape: tuple[int, ...], dtype: Any) -> Array:
        """Make an array of zeros, in a file if it is larger than an eighth of the memory."""
        if int(np.prod(shape)) * np.dtype(dtype).itemsize <= self.bytes // 8:
            return np.zeros(shape, dtype)
        self.directory.mkdir(parents=True, exist_ok=True)
        path = self.directory / f"{name}.array"
        with open(path, "wb") as file:  # a full disk is an error here, where a write to mapped memory would be a crash
            os.posix_fallocate(file.fileno(), 0, int(np.prod(shape)) * np.dtype(dtype).itemsize)
        return np.asarray(np.memmap(path, dtype, "r+", shape=shape))


class Sorter:
    """Records of uint64 that come in order, and go sorted by their first column, otherwise in the order they came in.

    Keys are hashes: their first bits share the records out evenly. Equal keys are never parted: a key that more records
    have than fit is mapped from its file."""

    def __init__(self, workspace: Workspace, name: str, columns: int, expected: int) -> None:
        """Make room for about `expected` records of `columns` numbers."""
        self._workspace, self._name, self._columns = workspace, name, columns
        self._limit = max(workspace.bytes // _COPIES, 1)
        self._bits = _bits(expected * columns * 8, self._limit)
        self._held: list[Array] = []
        self._files: dict[int, Path] = {}
        self.count = 0
        """Records so far."""

    @property
    def in_memory(self) -> bool:
        """Tell whether nothing is written."""
        return not self._bits

    def add(self, records: Array) -> None:
        """Take records, (records, columns), uint64."""
        self.count += len(records)
        if not self._bits:
            self._held.append(records)
            return
        _append(records, 64 - self._bits, self._bits, self._path, self._files)

    def blocks(self) -> Iterator[Array]:
        """Yield sorted records, (records, columns): all of a key in one block, blocks in the order of keys."""
        if not self._bits:
            if self.count:
                yield _sorted(np.concatenate(self._held))
            return
        for _, path in sorted(self._files.items()):
            yield from self._file(path, self._bits)

    def close(self) -> None:
        """Remove what was written."""
        for path in self._files.values():
            path.unlink(missing_ok=True)
        self._held, self._files = [], {}

    def _path(self, part: int, of: str = "") -> Path:
        self._workspace.directory.mkdir(parents=True, exist_ok=True)
        return self._workspace.directory / f"{self._name}{of}.{part:03}"

    def _file(self, path: Path, used: int) -> Iterator[Array]:
        """Yield the blocks of a file whose keys have their first `used` bits in common."""
        records = np.memmap(path, np.uint64, "r").reshape(-1, self._columns)
        if records.nbytes <= self._limit or used >= 64 or (records[:, 0] == records[0, 0]).all():
            yield _sorted(np.asarray(records))
            return
        bits = min(_bits(records.nbytes, self._limit), 64 - used)
        files: dict[int, Path] = {}
        rows = max(self._limit // (8 * self._columns), 1)
        for at in range(0, len(records), rows):
            _append(np.asarray(records[at : at + rows]), 64 - used - bits, bits,
                    lambda part: self._path(part, path.name.removeprefix(self._name)), files)
        for _, below in sorted(files.items()):
            yield from self._file(below, used + bits)
            below.unlink()


def _bits(size: int, limit: int) -> int:
    """Return the bits of the number of files that so many bytes need; 0: they fit into memory."""
    files = -(-size // limit)
    return min(max(files - 1, 0).bit_length(), _FILES.bit_length() - 1)


def _append(records: Array, shift: int, bits: int, path: Any, files: dict[int, Path]) -> None:
    """Append each record to the file of the `bits` bits of its key from `shift` on."""
    parts = (records[:, 0] >> np.uint64(shift)) & np.uint64(2**bits - 1)
    order = np.argsort(parts.astype(np.uint16), kind="stable")
    bounds = np.searchsorted(parts[order], np.arange(2**bits + 1))
    grouped = records[order]
    for part in np.flatnonzero(np.diff(bounds)).tolist():
        new = part not in files
        target = files.setdefault(part, path(part))
        with open(target, "wb" if new else "ab") as file:
            file.write(grouped[bounds[part] : bounds[part + 1]].tobytes())


def _sorted(records: Array) -> Array:
    """Sort by the first column; equal keys stay in their order."""
    from argosy.corpus.cleaning.kernels.dedup.near_dedup import restore

    keys = np.ascontiguousarray(records[:, 0])
    order = np.argsort(keys)
    restore(keys, order)
    return records[order]
