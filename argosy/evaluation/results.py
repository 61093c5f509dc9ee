"""An evaluation's rows, one an item x variant, as Parquet: any tool reads them, and equal rows are equal bytes."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from argosy.errors import InputError
from argosy.evaluation.result_columns import columns_of, row_of
from argosy.storage import write_atomic

if TYPE_CHECKING:
    from pyarrow import Table  # type: ignore[import-untyped]

ITEMS = "items.parquet"
OLD_ITEMS = "items.jsonl"  # what evaluations wrote before; still read


def write_items(out: Path, rows: Sequence[Mapping[str, Any]]) -> Path:
    """Write `items.parquet` below `out`, atomically; the path.

    A key is a column (argosy.evaluation.result_columns); a row without it has null there. The same rows are the same
    bytes, with one version of pyarrow.
    """
    import io

    import pyarrow.parquet as pq  # type: ignore[import-untyped]

    buffer = io.BytesIO()
    pq.write_table(_table(rows), buffer, compression="zstd", row_group_size=65_536)
    path = out / ITEMS
    write_atomic(path, buffer.getvalue())
    return path


def read_items(directory: Path | str) -> list[dict[str, Any]]:
    """The rows of an evaluation's directory, of `items.parquet` or an old `items.jsonl`, in their order. What a row
    lacks is no key of it; lines of an old file that are no rows are left out (`scan_items` counts them).

    Raises:
        InputError: there is neither file, or `items.parquet` is not whole.
    """
    return scan_items(directory)[0]


def scan_items(directory: Path | str) -> tuple[list[dict[str, Any]], int]:
    """`read_items`, and how many lines of an old file are no rows."""
    folder = Path(directory)
    if (folder / ITEMS).is_file():
        return _read_parquet(folder / ITEMS), 0
    if (folder / OLD_ITEMS).is_file():
        found = list(_read_jsonl(folder / OLD_ITEMS))
        rows = [row for row in found if row is not None]
        return rows, len(found) - len(rows)
    raise InputError(f"{folder} has no {ITEMS}: evaluate the checkpoint again")


def has_items(directory: Path | str) -> bool:
    """Whether there are rows to read."""
    return any((Path(directory) / name).is_file() for name in (ITEMS, OLD_ITEMS))


def _table(rows: Sequence[Mapping[str, Any]]) -> Table:
    import pyarrow as pa

    kinds = {"bool": pa.bool_(), "int": pa.int64(), "float": pa.float64(), "str": pa.string(),
             "ints": pa.list_(pa.int64()), "floats": pa.list_(pa.float64()), "strs": pa.list_(pa.string()),
             "lists": pa.list_(pa.list_(pa.float64())), "json": pa.string()}  # fmt: skip
    columns = columns_of(rows)
    arrays = [pa.array(column.values, kinds[column.kind]) for column in columns]
    return pa.table(arrays, names=[column.name for column in columns])


def _read_parquet(path: Path) -> list[dict[str, Any]]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        with pq.ParquetFile(path) as file:
            return [row_of(found) for found in file.read(use_threads=False).to_pylist()]
    except (pa.ArrowException, OSError) as error:
        raise InputError(f"{path} is broken ({error}): remove its directory and evaluate again") from None


def _read_jsonl(path: Path) -> Iterator[dict[str, Any] | None]:
    """A row a line; None for a line that is none."""
    with open(path, "rb") as file:
        for line in file:
            try:
                found = json.loads(line)
            except ValueError:
                yield None
            else:
                yield found if isinstance(found, dict) else None
