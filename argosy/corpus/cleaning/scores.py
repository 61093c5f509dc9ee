"""A scored shard: its scores and keys, written batch by batch and read by row groups, never held all at once."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import IO, Any

from argosy.core.errors import InputError
from argosy.core.lazy import Array, np, pa, pq
from argosy.core.store.files import make_directory, temporary_of
from argosy.corpus.cleaning.dedup.index import KeyFiles
from argosy.corpus.cleaning.scoring import Scored
from argosy.corpus.data.shards import shard_files

SCORES = "scores.parquet"
KEYS = "keys"
CHANGED = "changed/"  # before the name of a filter in a column of SCORES: whether it changed the text
CHANNEL, SIZE_IN, SIZE = "channel", "bytes_in", "bytes"  # columns of SCORES
_GROUP = 2**16  # rows of a row group: some 40 MB with all filters


def is_score(column: str) -> bool:
    """Tell whether a column of SCORES is a score: "<filter>.<score>"."""
    return "." in column and not column.startswith(CHANGED)


class ScoresWriter:
    """Writer of the scores and keys of a shard; they are whole after `close`. Columns are not known before the last
    batch (a filter that changed nothing has none), so that row groups wait on disk, uncompressed, until then."""

    def __init__(self, out: Path) -> None:
        self._out = out
        self._tables: list[pa.Table] = []
        self._rows = 0  # of these tables
        self._waiting: list[Path] = []
        self._keys: dict[str, _Array] = {}

    def add(self, scored: Scored, bytes_in: Sequence[int]) -> None:
        """Append a batch whose documents had `bytes_in` UTF-8 bytes before they were repaired."""
        documents = scored.batch.documents
        columns: dict[str, Any] = {
            CHANNEL: pa.array([d.channel for d in documents]).dictionary_encode(), SIZE_IN: pa.array(bytes_in),
            SIZE: pa.array([len(d.text.encode(errors="surrogatepass")) for d in documents])}
        columns |= {f"{CHANGED}{label}": pa.array(flags) for label, flags in scored.changed.items()}
        self._tables.append(pa.table(columns | {name: pa.array(values) for name, values in scored.scores.items()}))
        self._rows += len(documents)
        if self._rows >= _GROUP:
            self._put_aside()
        for label, keys in scored.keys.items():
            for name, values in keys.items():
                self._array(f"{label}.{name}").append(values)

    def _array(self, name: str) -> "_Array":
        if name not in self._keys:
            self._keys[name] = _Array(make_directory(self._out / KEYS) / f"{name}.npy")
        return self._keys[name]

    def _put_aside(self) -> None:
        """Write all full row groups of what is held."""
        table = self._held()
        while len(table) >= _GROUP:
            group, table = table.slice(0, _GROUP), table.slice(_GROUP)
            self._waiting.append(temporary_of(self._out / f"{SCORES}.{len(self._waiting)}"))
            with pa.OSFile(str(self._waiting[-1]), "wb") as stream, pa.ipc.new_file(stream, table.schema) as file:
                file.write_table(_plain(group))
        self._tables, self._rows = [table], len(table)

    def _held(self) -> "pa.Table":
        return pa.concat_tables(self._tables, promote_options="default") if self._tables else pa.table({})

    def close(self) -> None:
        """Write the files."""
        for array in self._keys.values():
            array.close()
        make_directory(self._out / KEYS)
        groups = [pa.ipc.open_file(pa.memory_map(str(path))).read_all() for path in self._waiting]
        if self._rows or not groups:
            groups.append(_plain(self._held()))
        fields = list(pa.unify_schemas([group.schema for group in groups]))
        # What repairs says so from the first batch on that it has changed: their order would tell of batches.
        schema = pa.schema(sorted(fields, key=lambda field: _place(field.name)))
        # Read in less than half of the time of zstd with dictionaries, and a fifth larger.
        with pq.ParquetWriter(self._out / SCORES, schema, compression="lz4", use_dictionary=[CHANNEL],
                              write_statistics=False) as writer:
            for group in groups:
                writer.write_table(_plain(pa.concat_tables([schema.empty_table(), group], promote_options="default")))
        for path in self._waiting:
            path.unlink()


def _place(name: str) -> tuple[int, str]:
    """Sort columns: what documents are, what has changed them by name, and scores as they come."""
    return (1, name) if name.startswith(CHANGED) else (2 if "." in name else 0, "")


def _plain(table: "pa.Table") -> "pa.Table":
    """Return a table whose bytes do not tell in what batches its rows came."""
    for at, name in enumerate(table.column_names):
        if name == CHANNEL:
            table = table.set_column(at, name, table.column(at).cast("string").combine_chunks().dictionary_encode())
        elif name.startswith(CHANGED):
            table = table.set_column(at, name, table.column(at).fill_null(False))
    return table.combine_chunks()


class _Array:
    """An .npy file that grows along its first axis."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._stream: IO[bytes] | None = None
        self._shape: tuple[int, ...] = (0,)
        self._dtype: np.dtype[Any] | None = None

    def append(self, values: Array) -> None:
        """Append rows of one type and shape."""
        rows = np.ascontiguousarray(values, self._dtype)
        if self._stream is None:
            self._stream = self._path.open("wb")
            self._dtype, self._shape = rows.dtype, (0, *rows.shape[1:])
            self._write_header()
        self._shape = (self._shape[0] + len(rows), *self._shape[1:])
        rows.tofile(self._stream)

    def _write_header(self) -> None:
        """Write the header; numpy leaves room in it for the first axis to grow."""
        assert self._stream
        assert self._dtype is not None
        descr: Any = np.lib.format.dtype_to_descr(self._dtype)
        np.lib.format.write_array_header_1_0(
            self._stream, {"descr": descr, "fortran_order": False, "shape": self._shape})

    def close(self) -> None:
        """Write the header anew, with the number of rows."""
        if self._stream:
            with self._stream as stream:
                stream.seek(0)
                self._write_header()


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

    def keys(self, label: str) -> Mapping[str, Array]:
        """Map into memory the keys that a deduplicating filter left, by name."""
        return KeyFiles(self.directory / KEYS, f"{label}.")


def _read(file: Any, group: int, columns: Sequence[str] | None) -> "pa.Table":
    there = None if columns is None else [name for name in columns if name in file.schema_arrow.names]
    return file.read_row_group(group, columns=there, use_threads=False)  # small: to begin threads takes longer
