"""The cleaned corpus: documents of scored shards, less those that the clean step decided against."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from argosy.cleaning.scoring import KEPT
from argosy.data.schemas import Document

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

DECISIONS = "decisions"  # of the clean step: a file a shard, by its number


def decisions_file(clean: Path, shard: int) -> Path:
    """Name the file of the decisions about a shard's documents."""
    return clean / DECISIONS / f"{shard:05}.npy"


@dataclass(frozen=True)
class KeptCorpus:
    """Documents that are trained on, in the order of the corpus.

    Attributes:
        clean: directory of a clean step.
        scored: directories of the score steps that it gathered, in their order."""

    clean: Path
    scored: Sequence[Path]

    @cached_property
    def kept(self) -> "list[npt.NDArray[np.bool_]]":
        """Tell of each document of each shard whether it is kept."""
        import numpy as np

        return [np.load(decisions_file(self.clean, at)) == KEPT for at in range(len(self.scored))]

    def names(self) -> Iterator[tuple[str, str]]:
        """Yield (channel, id) of each document, without reading texts."""
        for table in self._tables(["channel", "id"]):
            yield from zip(table.column("channel").to_pylist(), table.column("id").to_pylist(), strict=True)

    def documents(self) -> Iterator[Document]:
        """Yield each document."""
        for table in self._tables(["id", "text", "channel", "lang", "source"]):
            for values in zip(*(column.to_pylist() for column in table.columns), strict=True):
                yield Document(*values)

    def count(self) -> Counter[str]:
        """Count documents by channel."""
        return Counter(channel for channel, _ in self.names())

    def _tables(self, columns: list[str]) -> Iterator[Any]:
        import pyarrow.parquet as pq

        for directory, kept in zip(self.scored, self.kept, strict=True):
            at = 0
            for path in sorted(directory.glob("documents-*.parquet")):
                with pq.ParquetFile(path) as file:
                    for rows in file.iter_batches(columns=columns):
                        yield rows.filter(_mask(kept[at : at + rows.num_rows]))
                        at += rows.num_rows


def _mask(values: "npt.NDArray[np.bool_]") -> Any:
    import pyarrow as pa

    return pa.array(values)
