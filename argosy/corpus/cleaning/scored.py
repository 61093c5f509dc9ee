"""The scored corpus: all shards that score steps left, read block by block, so that memory does not grow with them."""

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

from argosy.core.errors import InputError
from argosy.core.lazy import Flags, Floats, Integers, np, pa
from argosy.corpus.cleaning.dedup.duplicates import About
from argosy.corpus.cleaning.dedup.external import Workspace
from argosy.corpus.cleaning.scores import CHANGED, CHANNEL, SIZE, ScoredShard, is_score

T = TypeVar("T")
_ROWS = 2**16  # of a block: some 40 MB with all filters


class Scores(Mapping[str, Floats]):
    """Scores of documents by "<filter>.<score>", each an array only when it is looked at."""

    def __init__(self, table: "pa.Table") -> None:
        self._table = table

    def __getitem__(self, name: str) -> Floats:
        return np.asarray(self._table.column(name).to_numpy(), np.float64)

    def __iter__(self) -> Iterator[str]:
        return filter(is_score, self._table.column_names)

    def __len__(self) -> int:
        return sum(1 for _ in self)


@dataclass(frozen=True)
class Block:
    """Documents of the corpus that come one after the other: channels, sizes and scores.

    Attributes:
        first: number of the first one in the corpus.
        table: a row a document."""

    first: int
    table: "pa.Table"

    def __len__(self) -> int:
        return int(self.table.num_rows)

    @property
    def rows(self) -> slice:
        """Return where its documents are among all of the corpus."""
        return slice(self.first, self.first + len(self))

    @cached_property
    def channels(self) -> tuple[list[str], Integers]:
        """Return names of channels, and of each document the number of its own, (documents,), int32."""
        column = self.table.column(CHANNEL).combine_chunks()
        return column.dictionary.to_pylist(), column.indices.to_numpy()

    def by_channel(self) -> Iterator[tuple[str, Flags]]:
        """Yield each channel that there is, by name, and which documents are of it, (documents,)."""
        names, numbers = self.channels
        for name in sorted(names):
            if (own := numbers == names.index(name)).any():
                yield name, own

    def in_channels(self, some: Sequence[str]) -> Flags:
        """Tell which documents are in one of these channels, (documents,)."""
        names, numbers = self.channels
        return np.isin(numbers, [at for at, name in enumerate(names) if name in some])

    def sizes(self, name: str) -> Integers:
        """Return `bytes_in` or `bytes` (after repair) of each document."""
        sizes: Integers = self.table.column(name).to_numpy()
        return sizes

    @property
    def scores(self) -> Scores:
        """Return all scores by "<filter>.<score>"."""
        return Scores(self.table)

    @property
    def changed(self) -> dict[str, Flags]:
        """Tell of each filter that repairs which documents it has changed."""
        return {name.removeprefix(CHANGED): self.table.column(name).fill_null(False).to_numpy()
                for name in self.table.column_names if name.startswith(CHANGED)}


class ScoredCorpus:
    """Shards, whose documents have numbers, from 0, in the shards' order.

    Attributes:
        firsts: number of each shard's first document, and at last of all documents, (shards + 1,).
        about: channels, lengths, scores and texts, by which the copy that stays is chosen."""

    def __init__(self, shards: Sequence[ScoredShard], work: Workspace) -> None:
        self.shards = shards
        self.firsts: Integers = np.cumsum([0, *map(len, shards)], dtype=np.int64)
        self.about = self._survey(work)

    def __len__(self) -> int:
        return int(self.firsts[-1])

    def _survey(self, work: Workspace) -> About:
        channels, lengths = work.array("channels", (len(self),), np.int32), work.array("sizes", (len(self),), np.int64)
        known: dict[str, int] = {}
        for block in self.blocks((CHANNEL, SIZE)):
            names, numbers = block.channels
            channels[block.rows] = np.array([known.setdefault(name, len(known)) for name in names], np.int32)[numbers]
            lengths[block.rows] = block.sizes(SIZE)
        sizes = np.diff(self.firsts).tolist()
        return About(sizes, channels, list(known), lengths, _Gathered(self, work), self.texts)

    def blocks(self, columns: Sequence[str] | None = None) -> Iterator[Block]:
        """Yield all documents in order, with all columns or some; the next block is read meanwhile."""
        first, held, rows = 0, list[pa.Table](), 0
        for table in _ahead(table for shard in self.shards for table in shard.tables(columns) if table.num_rows):
            if held and rows + len(table) > _ROWS:
                yield _joined(first, held)
                first, held, rows = first + rows, [], 0
            held.append(table)
            rows += len(table)
        if held:
            yield _joined(first, held)

    def places(self, documents: Integers) -> Iterator[tuple[int, Integers]]:
        """Yield (number of a shard, numbers in it) of documents, which are ascending."""
        bounds = np.searchsorted(documents, self.firsts)
        for number in np.flatnonzero(np.diff(bounds)).tolist():
            yield number, documents[bounds[number] : bounds[number + 1]] - self.firsts[number]

    def rows(self, documents: Integers, columns: Sequence[str]) -> Iterator[tuple[Any, ...]]:
        """Yield columns of documents, ascending, of the shards' documents (`argosy.corpus.data.shards.COLUMNS`)."""
        for number, rows in self.places(documents):
            yield from self.shards[number].rows(rows.tolist(), columns)

    def texts(self, documents: Integers) -> list[str]:
        """Read the texts of documents, ascending."""
        return [text for text, in self.rows(documents, ("text",))]


class _Gathered(Mapping[str, Floats]):
    """Scores of all documents, each gathered when it is looked at first."""

    def __init__(self, corpus: ScoredCorpus, work: Workspace) -> None:
        self._corpus, self._work = corpus, work
        self._found: dict[str, Floats] = {}

    @cached_property
    def _names(self) -> list[str]:
        return next((list(block.scores) for block in self._corpus.blocks()), [])

    def __getitem__(self, name: str) -> Floats:
        if name not in self._names:
            raise KeyError(name)
        if name not in self._found:
            values = self._work.array(f"score-{len(self._found)}", (len(self._corpus),), np.float64)
            for block in self._corpus.blocks((name,)):
                values[block.rows] = block.scores[name]
            self._found[name] = values
        return self._found[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)


def open_shards(scored: Sequence[Path], measured: Sequence[Path]) -> list[ScoredShard]:
    """Open the shards that score steps left, with what measure steps have added, if there are any. Raises InputError:
    these are not of the same shards."""
    if not measured:
        return [ScoredShard(directory) for directory in scored]
    shards = [ScoredShard(one, other) for one, other in zip(scored, measured, strict=False)]
    if len(scored) != len(measured) or any(len(each) != len(ScoredShard(each.measured)) for each in shards
                                           if each.measured):
        raise InputError(f"measured names {len(measured)} directories, and scored {len(scored)}: name the measure "
                         "steps of the same shards, in their order")
    return shards


def scores_of(shard: ScoredShard, row: int) -> Scores:
    """Return the scores of one document, (1,) each. Raises IndexError: the shard has none of this number."""
    for table in shard.tables():
        if row < len(table):
            return Scores(table.slice(row, 1))
        row -= len(table)
    raise IndexError(row)


def _joined(first: int, tables: "Sequence[pa.Table]") -> Block:
    return Block(first, pa.concat_tables(tables, promote_options="default").unify_dictionaries())


def _ahead(values: Iterator[T]) -> Iterator[T]:
    """Yield values, the next of which is made by a thread meanwhile."""
    with ThreadPoolExecutor(1) as pool:
        coming = pool.submit(next, values, None)
        while (value := coming.result()) is not None:
            coming = pool.submit(next, values, None)
            yield value
