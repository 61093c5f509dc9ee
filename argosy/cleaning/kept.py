"""The cleaned corpus: documents of scored shards, less those that the clean step decided against."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from argosy.cleaning.scoring import KEPT
from argosy.data.schemas import Document
from argosy.data.shards import read_columns, shard_files
from argosy.errors import InputError
from argosy.store.files import read_json
from argosy.store.step_files import given_directory, read_outputs

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

REPORT = "report.json"
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

    @classmethod
    def of(cls, clean: str, scored: Sequence[str]) -> Self:
        """Take the directories that a step was given. Raises InputError: one is absent, unfinished or incomplete."""
        directory = given_directory("documents", clean, "clean")
        parts = [given_directory("scored", each, "score") for each in scored]
        if len(parts) != (count := read_outputs(directory, "documents")["shards"]):
            raise InputError(f"scored names {len(parts)} directories, and {clean} has gathered {count}: name those of "
                             "its score steps, in their order")
        return cls(directory, parts)

    @cached_property
    def kept(self) -> "list[npt.NDArray[np.bool_]]":
        """Tell of each document of each shard whether it is kept."""
        import numpy as np

        return [np.load(decisions_file(self.clean, at)) == KEPT for at in range(len(self.scored))]

    def names(self) -> Iterator[tuple[Any, ...]]:
        """Yield (channel, id) of each document, without reading texts."""
        yield from self._rows(("channel", "id"))

    def documents(self) -> Iterator[Document]:
        """Yield each document."""
        for row in self._rows(("id", "text", "channel", "lang", "source")):
            yield Document(*row)

    def channels(self) -> list[str]:
        """List all channels, also those of which nothing is kept."""
        return sorted(read_json(self.clean / REPORT)["channels"])

    def sizes(self) -> dict[str, int]:
        """Return the UTF-8 bytes of each channel that has documents."""
        channels = read_json(self.clean / REPORT)["channels"]
        return {name: counts["bytes_out"] for name, counts in channels.items() if counts["out"]}

    def _rows(self, columns: Sequence[str]) -> Iterator[tuple[Any, ...]]:
        for directory, kept in zip(self.scored, self.kept, strict=True):
            at = 0
            for path in shard_files(directory):
                for group in read_columns(path, columns):
                    rows = list(zip(*group.values.values(), strict=True))
                    yield from (row for row, keep in zip(rows, kept[at : at + len(rows)], strict=True) if keep)
                    at += len(rows)
