"""Keys of all documents that are compared, those of earlier corpora first, and which of several copies stays."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

from argosy.core.lazy import Flags, Floats, Integers, np
from argosy.corpus.cleaning.dedup.duplicates import About, DedupConfig, Duplicates
from argosy.corpus.cleaning.dedup.index import IndexPart
from argosy.corpus.cleaning.filter import Keys


@dataclass
class Corpus:
    """Documents by number: first those of earlier corpora, then ours; a `Duplicates` counts from the first of ours.

    Attributes:
        parts: keys by shard.
        firsts: number of the first document of each part, and at last their number.
        kept: whether a document is looked at, (documents,).
        earlier: how many are of earlier corpora."""

    parts: Sequence[Keys]
    firsts: Integers
    kept: Flags
    earlier: int
    before: Sequence[IndexPart]
    about: About
    config: DedupConfig

    @classmethod
    def gather(cls, before: Sequence[IndexPart], shards: Sequence[Keys], kept: Flags, about: About,
               config: DedupConfig) -> "Corpus":
        """Lay the documents of earlier corpora before those of the shards."""
        before = [part for part in before if part.documents]
        sizes = [part.documents for part in before]
        there = [(keys, size) for keys, size in zip(shards, about.sizes, strict=True) if size]
        parts = [*(part.keys for part in before), *(keys for keys, _ in there)]
        counts = [*sizes, *(size for _, size in there)]
        firsts = np.concatenate([np.zeros(1, np.int64), np.cumsum(counts, dtype=np.int64)])
        everywhere = np.concatenate([np.ones(sum(sizes), np.bool_), kept])
        return cls(parts, firsts, everywhere, sum(sizes), before, about, config)

    def __len__(self) -> int:
        return len(self.kept)

    @cached_property
    def _ranks(self) -> Integers:
        """Rank of each channel: its place among the priorities."""
        order = list(self.config.priorities)
        return np.array([order.index(name) if name in order else len(order) for name in self.about.names], np.int64)

    def sort_keys(self, documents: Integers) -> tuple[Integers, Floats, Integers]:
        """Return what orders documents, the one that stays least: as np.lexsort takes it, the last key counts most."""
        ours = np.maximum(documents - self.earlier, 0)
        if self.config.keep == "first" or not len(self.about.lengths):
            values = np.zeros(len(documents))
        elif self.config.keep == "longest":
            values = -self.about.lengths[ours].astype(np.float64)
        else:
            values = -self.about.scores[self.config.score][ours]
            values[np.isnan(values)] = np.inf
        ranks = self._ranks[self.about.channels[ours]] if len(self._ranks) else np.zeros(len(documents), np.int64)
        before = documents < self.earlier
        return documents, np.where(before, 0.0, values), np.where(before, -1, ranks)

    def stay(self, groups: Integers, documents: Integers) -> Integers:
        """Return of each entry the document of its group that stays.

        groups: number of each entry's group, from 0, ascending."""
        order = np.lexsort((*self.sort_keys(documents), groups))
        first = np.concatenate([np.ones(1, np.bool_), np.diff(groups[order]) != 0])
        best: Integers = documents[order[first]]
        return best[groups]

    def texts(self, documents: Integers) -> list[str]:
        """Read the texts of documents, ascending, of one part. Raises TypeError: nobody has said how."""
        first = int(documents[0])
        if first < self.earlier:
            part = int(np.searchsorted(self.firsts, first, "right")) - 1
            return self.before[part].texts(documents - self.firsts[part])
        if self.about.texts is None:
            raise TypeError("texts are compared, and About.texts is None")
        return list(self.about.texts(documents - self.earlier))

    def numbers(self) -> "Iterator[tuple[Keys, int, Integers]]":
        """Yield of each part its keys, the number of its first document, and which of its documents are looked at."""
        for part, first, end in zip(self.parts, self.firsts[:-1].tolist(), self.firsts[1:].tolist(), strict=True):
            yield part, first, np.flatnonzero(self.kept[first:end])

    def duplicates(self, documents: Integers, of: Integers, spans: Integers | None = None) -> Duplicates:
        """Make the answer in numbers of our corpus; documents of earlier ones never go."""
        ours = documents >= self.earlier
        documents, of = documents[ours] - self.earlier, of[ours] - self.earlier
        order = np.argsort(documents)
        cut = np.zeros((0, 3), np.int64) if spans is None else spans - np.array([self.earlier, 0, 0])
        documents, of = documents[order], of[order]
        return Duplicates(documents, of, np.where(of == documents, 2, of < 0).astype(np.int8), cut)
