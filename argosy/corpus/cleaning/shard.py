"""A shard that was scored: its documents as repaired, their scores, and keys that copies are recognised by."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from argosy.core.errors import InputError
from argosy.core.lazy import np, npt, pa, pq
from argosy.corpus.cleaning.dedup.key_files import KeyFiles
from argosy.corpus.cleaning.scores import KEYS, SCORES, is_score
from argosy.corpus.data.shards import shard_files


@dataclass(frozen=True)
class ScoredShard:
    """A scored shard as a score step left it.

    Attributes:
        measured: of the measure step that has scored its documents by models of torch, if any."""

    directory: Path
    measured: Path | None = None

    @cached_property
    def _documents(self) -> int:
        return int(pq.read_metadata(self.directory / SCORES).num_rows)

    def __len__(self) -> int:
        return self._documents

    def tables(self, columns: Sequence[str] | None = None) -> "Iterator[pa.Table]":
        """Yield channels, sizes and scores, or those of `columns` that there are: a row a document, and a table a row
        group. Raises InputError: a file is damaged."""
        try:
            with ExitStack() as stack:
                file = stack.enter_context(pq.ParquetFile(self.directory / SCORES))
                more = stack.enter_context(pq.ParquetFile(self.measured / SCORES)) if self.measured else None
                for number in range(file.num_row_groups):
                    table = _read(file, number, columns)
                    for name in filter(is_score, more.schema_arrow.names) if more else ():
                        if columns is None or name in columns:
                            table = table.append_column(name, _read(more, number, [name]).column(name))
                    yield table
        except (pa.ArrowException, OSError) as error:
            raise InputError(f"{self.directory / SCORES} is damaged ({error}): delete the step's directory and run it "
                             "again") from error

    def rows(self, numbers: Sequence[int], columns: Sequence[str]) -> list[tuple[Any, ...]]:
        """Return columns of the documents with these numbers, ascending; row groups without any are not read."""
        found: list[tuple[Any, ...]] = []
        wanted, at = np.asarray(numbers, np.int64), 0
        for path in shard_files(self.directory) if len(wanted) else ():
            with pq.ParquetFile(path) as file:
                for group in range(file.num_row_groups):
                    size = file.metadata.row_group(group).num_rows
                    begin, end = np.searchsorted(wanted, (at, at + size))
                    if end > begin:
                        table = file.read_row_group(group, columns=list(columns)).take(wanted[begin:end] - at)
                        found += zip(*(table.column(name).to_pylist() for name in columns), strict=True)
                    at += size
            if len(found) == len(wanted):
                break
        return found

    def column(self, name: str, numbers: "Sequence[int] | None" = None) -> list[Any]:
        """Return one column, of all documents or as `rows`."""
        return [value for value, in self.rows(range(len(self)) if numbers is None else numbers, (name,))]

    def keys(self, label: str) -> "Mapping[str, npt.NDArray[Any]]":
        """Map into memory the keys that a deduplicating filter left, by name."""
        return KeyFiles(self.directory / KEYS, f"{label}.")


def _read(file: Any, group: int, columns: Sequence[str] | None) -> "pa.Table":
    there = None if columns is None else [name for name in columns if name in file.schema_arrow.names]
    return file.read_row_group(group, columns=there, use_threads=False)  # small: to begin threads takes longer
