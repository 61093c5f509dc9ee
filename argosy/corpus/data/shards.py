"""Shards of documents between steps: files of a bounded size, Parquet (zstd) or JSONL, with where each document is from
and what changed it. The same documents give the same bytes."""

from collections.abc import Iterator, Sequence
from contextlib import suppress
from itertools import islice
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, NamedTuple

from argosy.core.errors import InputError
from argosy.core.lazy import pa, pq
from argosy.core.store.files import sync, temporary_of
from argosy.corpus.data.jsonl import dump_line, read_jsonl
from argosy.corpus.data.schemas import Document

Format = Literal["parquet", "jsonl", "jsonl.zst"]
COLUMNS = ("id", "text", "channel", "lang", "source", "offset", "metadata", "changed")
SHARD_BYTES = 256 * 2**20  # of text in a file
GROUP_BYTES = 8 * 2**20  # of text in a row group
_ROWS = 1000  # of JSONL in a batch that is read
_LEVEL = 3  # of zstd


class ShardWriter:
    """Files `documents-00000.parquet`, ... below a folder, that appear together when the block ends without an error.

    Args:
        folder: made if it is absent.
        format: of the files; "jsonl" and "jsonl.zst" have the same fields a line, metadata as JSON in a text too, since
            datasets takes one type a field.
        shard_bytes: UTF-8 bytes of text after which a new file begins."""

    def __init__(self, folder: Path, format: Format = "parquet", shard_bytes: int = SHARD_BYTES,
                 group_bytes: int = GROUP_BYTES, name: str = "documents") -> None:
        self.documents = 0
        self.bytes = 0
        """UTF-8 bytes of the texts."""
        self.files: list[tuple[str, int, int]] = []
        """Of each file that is full: its name, documents and UTF-8 bytes of their texts."""
        self._folder, self._format, self._name = folder, format, name
        self._shard_bytes, self._group_bytes = shard_bytes, group_bytes
        self._rows: list[tuple[Any, ...]] = []
        self._held = self._in_shard = 0
        self._begun = (0, 0)  # documents and bytes before the file that is written
        self._paths: list[Path] = []
        self._file: _File | None = None

    def write(self, document: Document, changed: Sequence[str] = ()) -> None:
        """Append a document; `changed`: names of the filters that changed its text."""
        size = len(document.text) if document.text.isascii() else len(document.text.encode())
        if self._in_shard and self._in_shard + size > self._shard_bytes:
            self._close()
        metadata = dump_line(document.metadata)[:-1] if document.metadata else "{}"
        self._rows.append((document.id, document.text, document.channel, document.lang, document.source,
                           document.offset, metadata, list(changed)))
        self._held += size
        self._in_shard += size
        self.documents += 1
        self.bytes += size
        if self._held >= self._group_bytes:
            self._flush()

    def write_all(self, documents: Sequence[Document], changed: Sequence[Sequence[str]] | None = None) -> None:
        """Append documents, with what changed each."""
        for index, document in enumerate(documents):
            self.write(document, changed[index] if changed else ())

    def _flush(self) -> None:
        if self._file is None:
            path = self._folder / f"{self._name}-{len(self._paths):05d}.{self._format}"
            self._paths.append(path)
            self._file = _File(temporary_of(path), self._format)
        if self._rows:
            self._file.write(self._rows)
            self._rows, self._held = [], 0

    def _close(self) -> None:
        self._flush()
        assert self._file is not None
        self._file.close()
        documents, size = self._begun
        self.files.append((self._paths[-1].name, self.documents - documents, self.bytes - size))
        self._begun = (self.documents, self.bytes)
        self._file, self._in_shard = None, 0

    def __enter__(self) -> "ShardWriter":
        self._folder.mkdir(parents=True, exist_ok=True)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 trace: TracebackType | None) -> None:
        if kind is None:
            if self._rows or self._file or not self._paths:  # without documents, there is one file with none
                self._close()
            for path in self._paths:
                sync(temporary_of(path))
                temporary_of(path).replace(path)
            sync(self._folder)
            return
        if self._file:
            with suppress(OSError):  # of a full disk, which has been said already
                self._file.close()
        for path in self._paths:
            temporary_of(path).unlink(missing_ok=True)


class _File:
    """A file of rows."""

    def __init__(self, path: Path, format: Format) -> None:
        text, number = pa.string(), pa.int64()
        kinds = (text, pa.large_string(), text, text, text, number, text, pa.list_(text))
        self._schema = pa.schema([pa.field(name, kind) for name, kind in zip(COLUMNS, kinds, strict=True)])
        self._table: Any = None
        self._stream: Any = None
        if format == "parquet":
            self._table = pq.ParquetWriter(path, self._schema, compression="zstd", compression_level=_LEVEL,
                                           write_statistics=False,  # half of the time, and nobody asks for them
                                           use_dictionary=["channel", "lang", "changed.list.element"])
        else:
            self._stream = pa.CompressedOutputStream(path, "zstd") if format == "jsonl.zst" else pa.OSFile(
                str(path), "wb")

    def write(self, rows: Sequence[tuple[Any, ...]]) -> None:
        """Write rows, in Parquet as a row group."""
        if self._table is not None:
            columns = list(map(list, zip(*rows, strict=True)))
            arrays = [pa.array(values, field.type) for values, field in zip(columns, self._schema, strict=True)]
            self._table.write_table(pa.Table.from_arrays(arrays, schema=self._schema), row_group_size=len(rows))
        else:
            for row in rows:
                self._stream.write(dump_line(dict(zip(COLUMNS, row, strict=True))).encode())

    def close(self) -> None:
        """End the file."""
        (self._stream if self._table is None else self._table).close()


class Columns(NamedTuple):
    """Some rows of a file: its values by column, as Python's, and the file and number of the first row."""

    values: dict[str, list[Any]]
    file: str
    first: int


def shard_files(folder: Path, name: str = "documents") -> list[Path]:
    """List the files that a ShardWriter made in a folder, in order. Raises InputError: there is none."""
    suffixes = (".parquet", ".jsonl", ".jsonl.zst")
    found = sorted(path for path in folder.glob(f"{name}-*") if path.name.endswith(suffixes))
    if not found:
        raise InputError(f"{folder} has no {name}-*.parquet: run the step that writes it, or correct the path")
    return found


def read_columns(path: Path, columns: Sequence[str] = COLUMNS) -> Iterator[Columns]:
    """Yield the columns of a file of a ShardWriter, a row group at a time. Raises InputError: it is damaged."""
    if not path.name.endswith(".parquet"):
        yield from _read_lines(path, columns)
        return
    first = 0
    try:
        with pq.ParquetFile(path) as table:
            for number in range(table.num_row_groups):
                group = table.read_row_group(number, columns=list(columns))
                yield Columns({name: group.column(name).to_pylist() for name in columns}, path.name, first)
                first += group.num_rows
    except (pa.ArrowException, OSError) as error:
        raise InputError(f"{path} is damaged ({error}): delete the step's directory and run it again") from error


def _read_lines(path: Path, columns: Sequence[str]) -> Iterator[Columns]:
    records, first = read_jsonl(path), 0
    while rows := list(islice(records, _ROWS)):
        yield Columns({name: [row[name] for row in rows] for name in columns}, path.name, first)
        first += len(rows)
