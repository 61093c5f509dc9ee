"""A shard that was scored: its documents as repaired, their scores, and keys that copies are recognised by."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from argosy.cleaning.scores import CHANGED, KEYS, SCORES
from argosy.data.shards import shard_files
from argosy.errors import InputError

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt
    import pyarrow as pa

_ABOUT = ("channel", "bytes_in", "bytes")  # columns of SCORES that are no scores


class Scores(Mapping[str, "npt.NDArray[np.float64]"]):
    """Scores of documents by "<filter>.<score>", each an array only when it is asked for."""

    def __init__(self, columns: "Mapping[str, pa.ChunkedArray]") -> None:
        self.columns = columns

    def __getitem__(self, name: str) -> "npt.NDArray[np.float64]":
        values: npt.NDArray[np.float64] = self.columns[name].to_numpy()
        return values

    def __iter__(self) -> Iterator[str]:
        return iter(self.columns)

    def __len__(self) -> int:
        return len(self.columns)


@dataclass(frozen=True)
class ScoredShard:
    """A scored shard as a score step left it.

    Attributes:
        measured: of the measure step that has scored its documents by models of torch, if any."""

    directory: Path
    measured: Path | None = None

    @cached_property
    def table(self) -> "pa.Table":
        """Read channels, sizes and all scores: a row a document."""
        import pyarrow.parquet as pq

        with pq.ParquetFile(self.directory / SCORES) as file:
            return file.read(use_threads=False)  # a small file: to begin threads takes longer

    def __len__(self) -> int:
        return int(self.table.num_rows)

    @property
    def channels(self) -> "npt.NDArray[Any]":
        """Return the channel's name of each document."""
        import numpy as np

        if not len(self):
            return np.zeros(0, str)
        return np.asarray(self.table.column("channel").to_numpy(zero_copy_only=False)).astype(str)

    @cached_property
    def _channel_names(self) -> frozenset[str]:
        return frozenset(self.table.column("channel").unique().to_pylist() if len(self) else ())

    def in_channels(self, names: Sequence[str]) -> "npt.NDArray[np.bool_]":
        """Tell which documents are in one of these channels, (documents,)."""
        import numpy as np

        if self._channel_names.isdisjoint(names):
            return np.zeros(len(self), np.bool_)
        return np.isin(self.channels, names)

    def sizes(self, name: str) -> "npt.NDArray[np.int64]":
        """Return `bytes_in` or `bytes` (after repair) of each document."""
        sizes: npt.NDArray[np.int64] = self.table.column(name).to_numpy()
        return sizes

    @cached_property
    def scores(self) -> Scores:
        """Return all scores by "<filter>.<score>"."""
        columns = {name: self.table.column(name) for name in self.table.column_names
                   if name not in _ABOUT and not name.startswith(CHANGED)}
        return Scores(columns if self.measured is None else columns | dict(ScoredShard(self.measured).scores.columns))

    @property
    def changed(self) -> "dict[str, npt.NDArray[np.bool_]]":
        """Tell of each filter that repairs which documents it has changed."""
        return {name.removeprefix(CHANGED): self.table.column(name).fill_null(False).to_numpy()
                for name in self.table.column_names if name.startswith(CHANGED)}

    def column(self, name: str, rows: "Sequence[int] | None" = None) -> list[str]:
        """Read a column of the documents, all of them or those of some rows, ascending: row groups without any of them
        are not read."""
        import numpy as np
        import pyarrow.parquet as pq

        values: list[str] = []
        wanted, at = np.arange(len(self)) if rows is None else np.asarray(rows, np.int64), 0
        for path in shard_files(self.directory) if len(wanted) else ():
            with pq.ParquetFile(path) as file:
                for number in range(file.num_row_groups):
                    size = file.metadata.row_group(number).num_rows
                    begin, end = np.searchsorted(wanted, (at, at + size))
                    if end > begin:
                        column = file.read_row_group(number, columns=[name]).column(name)
                        values += column.take(wanted[begin:end] - at).to_pylist()
                    at += size
        return values

    def keys(self, label: str) -> "Mapping[str, npt.NDArray[Any]]":
        """Map into memory the keys that a deduplicating filter left, by name."""
        import numpy as np

        folder = self.directory / KEYS
        return {path.name.removeprefix(f"{label}.").removesuffix(".npy"): np.load(path, mmap_mode="r")
                for path in sorted(folder.glob(f"{label}.*.npy"))}


def open_shards(scored: Sequence[Path], measured: Sequence[Path]) -> list[ScoredShard]:
    """Open the shards that score steps left, with what measure steps have added, if there are any.

    Raises InputError: these are not of the same shards."""
    if not measured:
        return [ScoredShard(directory) for directory in scored]
    shards = [ScoredShard(one, other) for one, other in zip(scored, measured, strict=False)]
    if len(scored) != len(measured) or any(len(each) != len(ScoredShard(each.measured)) for each in shards
                                           if each.measured):
        raise InputError(f"measured names {len(measured)} directories, and scored {len(scored)}: name the measure "
                         "steps of the same shards, in their order")
    return shards
