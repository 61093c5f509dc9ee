"""Parquet, row group by row group."""

from collections.abc import Iterator
from typing import Any

from argosy.core.lazy import pa, pq
from argosy.core.store.remote import open_file
from argosy.corpus.data.jsonl import Damaged, Reject
from argosy.corpus.data.readers import Reader, Record, Span, check_columns
from argosy.corpus.data.sources import Cut, InputFile, SourceConfig

ROWS = 1000  # that are in memory at a time
_UNREADABLE = (ValueError, OverflowError, KeyError)  # bytes that are no UTF-8, times out of range, unknown time zones


class Parquet(Reader):
    """Parquet. A large file is cut between row groups."""

    name = "parquet"
    suffixes = (".parquet",)
    names_channels = True
    packed = False
    unit = "row"

    def read(self, file: InputFile, span: Span, config: SourceConfig) -> Iterator[Record | Reject]:
        """Yield the rows of the span's row groups."""
        row = span.first.line - 1
        try:
            with open_file(file.path) as raw, pq.ParquetFile(raw) as table:
                groups = range(span.first.group, span.last.group if span.last else table.num_row_groups)
                for batch in table.iter_batches(ROWS, row_groups=groups) if groups else ():
                    yield from rows(batch, row, file, config)
                    row += batch.num_rows
        except (pa.ArrowException, OSError) as error:
            if isinstance(error, OSError) and error.errno is not None:
                raise
            raise Damaged("damaged or cut off", str(error)) from error

    def groups(self, path: str, size: int, most: int) -> list[Cut]:
        """List spans of row groups; [] where the file's end does not tell them, as it is damaged."""
        try:
            with open_file(path) as raw, pq.ParquetFile(raw) as table:
                known = [table.metadata.row_group(each) for each in range(table.num_row_groups)]
        except (pa.ArrowException, OSError):
            return []
        cuts: list[Cut] = []
        row, weight = 1, most
        for number, group in enumerate(known):
            start = min((_begin(group.column(each)) for each in range(group.num_columns)), default=0)
            if weight >= most:
                cuts.append(Cut(start if cuts else 0, row, 0, "", number))
                weight = 0
            weight += group.total_byte_size
            cuts[-1] = cuts[-1]._replace(weight=weight)
            row += group.num_rows
        starts = [cut.start for cut in cuts]
        return cuts if starts == sorted(set(starts)) else []


def _begin(column: Any) -> int:
    places = [column.data_page_offset, column.dictionary_page_offset if column.has_dictionary_page else None]
    return min(int(place) for place in places if place is not None)


def _shown(value: Any) -> Any:
    """Return a value of a broken row, or its bytes or type where it is what is broken."""
    try:
        return value.as_py()
    except _UNREADABLE:
        if pa.types.is_string(value.type) or pa.types.is_large_string(value.type):
            return value.cast(pa.large_binary()).as_py()
        return f"<{value.type}>"


def present(column: Any) -> list[Any]:
    """Return the values of a column as JSON has them: a map is an object, and a struct has no key that is null.

    A file by columns gives each row of a struct the keys of all rows; those that a row did not have are null."""
    return _present(column.to_pylist(), column.type)


def _present(values: list[Any], kind: Any) -> list[Any]:
    types = pa.types
    if isinstance(kind, pa.BaseExtensionType):
        kind = kind.storage_type
    if types.is_struct(kind):
        fields = {field.name: field.type for field in kind}
        return [{key: _present([each], fields[key])[0] for key, each in value.items() if each is not None}
                if isinstance(value, dict) else value for value in values]
    if types.is_map(kind):
        return [dict(zip([key for key, _ in value], _present([each for _, each in value], kind.item_type), strict=True))
                if value is not None else None for value in values]
    if types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind):
        return [_present(value, kind.value_type) if value is not None else None for value in values]
    return values


def rows(batch: Any, before: int, file: InputFile, config: SourceConfig) -> Iterator[Record | Reject]:
    """Yield the rows of a record batch that `before` others precede, each with the fields that it has; one with bytes
    that are no UTF-8, or a time that Python cannot hold, is set aside.

    Raises Damaged: two columns have the name of the text's."""
    names = batch.schema.names
    check_columns(names, config.text_field)
    try:
        columns = [present(batch.column(index)) for index in range(len(names))]
    except _UNREADABLE as error:
        if batch.num_rows > 1:
            for index in range(batch.num_rows):
                yield from rows(batch.slice(index, 1), before + index, file, config)
            return
        shown = {name: _shown(batch.column(index)[0]) for index, name in enumerate(names)}
        reason = "invalid UTF-8" if isinstance(error, UnicodeDecodeError) else "value that cannot be read"
        yield Reject(file.label, before + 1, reason, repr(shown).encode(errors="surrogateescape"),
                     "" if isinstance(error, UnicodeDecodeError) else str(error), unit="row")
        return
    for index, values in enumerate(zip(*columns, strict=True)):
        fields = {name: value for name, value in zip(names, values, strict=True)
                  if value is not None or name == config.text_field}
        yield Record(before + index + 1, before + index, fields)
