"""Removal of repeated parts of documents: each part stays in one document, and goes from all others.

Parts come as records (hash, document, place), sorted on disk. A document of which too much would go is dropped whole;
then the parts that it would have kept are given to others, until nothing changes."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, TypeVar

from pydantic import Field

from argosy.cleaning.dedup.corpus import Corpus
from argosy.cleaning.dedup.deduplicator import Deduplicator
from argosy.cleaning.dedup.duplicates import DedupConfig, Duplicates
from argosy.cleaning.dedup.external import Sorter, Workspace

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from argosy.cleaning.batch import Integers

    Records = npt.NDArray[np.uint64]

_ROUNDS = 10  # in which documents are dropped; after them parts are removed alone
_HALF, _LOW = 32, 2**32 - 1


class SpanDedupConfig(DedupConfig):
    """Base of the config of deduplicators that remove parts of documents."""

    max_share: Annotated[float, Field(gt=0, le=1)] = 0.8
    """Share of a document's characters that may be removed; of one of which more would go, nothing stays."""
    min_documents: Annotated[int, Field(ge=2)] = 2
    """Documents from which on a repeated part is removed from all but one."""


S = TypeVar("S", bound=SpanDedupConfig)


class SpanDeduplicator(Deduplicator[S]):
    """A deduplicator of parts of documents; its keys have `lengths`, the code points of each document."""

    config_class = SpanDedupConfig
    reasons: ClassVar[tuple[str, str]] = ("mostly parts of earlier documents", "mostly parts of an earlier corpus")
    spans = True

    def _decide(self, corpus: Corpus, parts: Sorter, work: Workspace, within: bool = False) -> Duplicates:
        """Decide about the parts of a corpus, which come as `SpanSelection` takes them."""
        import numpy as np

        lengths = work.array("lengths", (len(corpus),), np.int64)
        for keys, first, end in zip(corpus.parts, corpus.firsts[:-1], corpus.firsts[1:], strict=True):
            lengths[first:end] = keys["lengths"]
        return SpanSelection(corpus, parts, self.config, lengths, work, within).duplicates()


class SpanSelection:
    """Parts of a corpus, and the decision which of them go.

    Args:
        parts: records (hash, document, begin * 2^32 + end in its code points).
        within: whether of several equal parts of one document all but the first go too.
        lengths: code points of each document of the corpus, (documents,)."""

    def __init__(
        self, corpus: Corpus, parts: Sorter, config: SpanDedupConfig, lengths: "Integers", work: Workspace, within: bool
    ) -> None:
        import numpy as np

        self._corpus, self._parts, self._config, self._work, self._within = corpus, parts, config, work, within
        self._lengths = lengths
        self._alive = corpus.kept.copy()
        self._dropped: list[Integers] = [np.zeros((0, 2), np.int64)]

    def duplicates(self) -> Duplicates:
        """Decide, round after round: what documents are dropped, and what is removed from others."""
        import numpy as np

        for turn in range(_ROUNDS + 1):
            repeated = self._repeated()
            spans, dropped = self._cut(repeated, drop=turn < _ROUNDS)
            repeated.close()
            self._dropped.append(dropped)
            self._alive[dropped[:, 0]] = False
            if not len(dropped):
                break
        self._parts.close()
        found = np.concatenate(self._dropped)
        return self._corpus.duplicates(found[:, 0], found[:, 1], spans)

    def _repeated(self) -> Sorter:
        """Gather (document in the high bits, begin and end, the document that keeps the part) of all that goes."""
        import numpy as np

        found = Sorter(self._work, "repeated", 3, 0 if self._parts.in_memory else self._parts.count)
        shift = np.uint64(self._shift)
        for block in self._parts.blocks():
            parts, keepers = self._losers(block)
            if len(parts):
                found.add(np.column_stack([parts[:, 1] << shift, parts[:, 2], keepers.astype(np.uint64)]))
        return found

    @property
    def _shift(self) -> int:
        """Bits by which a document's number is moved, so that numbers share the first bits out evenly."""
        return 64 - max(len(self._corpus), 1).bit_length()

    def _losers(self, block: "Records") -> "tuple[Records, Integers]":
        """Return the parts of a sorted block that go, and of each the document that keeps it."""
        import numpy as np

        edge = np.ones(1, np.bool_)
        block = block[self._alive[block[:, 1].astype(np.int64)]]
        if not len(block):
            return block, np.zeros(0, np.int64)
        new = np.concatenate([edge, block[1:, 0] != block[:-1, 0]])
        groups = np.cumsum(new) - 1
        other = new | np.concatenate([edge, block[1:, 1] != block[:-1, 1]])  # documents come in order in a group
        documents = np.bincount(groups, weights=other)[groups]
        entries = np.bincount(groups)[groups]
        among = (documents >= self._config.min_documents) | (self._within & (entries > 1))
        block, groups = block[among], np.unique(groups[among], return_inverse=True)[1]
        if not len(block):
            return block, np.zeros(0, np.int64)
        holders = block[:, 1].astype(np.int64)
        keepers = self._corpus.stay(groups, holders)
        goes = (holders != keepers) & (holders >= self._corpus.earlier)
        if self._within:
            first = np.concatenate([edge, (np.diff(groups) != 0) | (np.diff(holders) != 0)])
            goes |= (holders == keepers) & ~first & (holders >= self._corpus.earlier)
        return block[goes], keepers[goes]

    def _cut(self, repeated: Sorter, drop: bool) -> "tuple[Integers, Integers]":
        """Return spans that go from documents that stay, in order, and (dropped document, who keeps most of it)."""
        import numpy as np

        spans, dropped = [np.zeros((0, 3), np.int64)], [np.zeros((0, 2), np.int64)]
        for block in repeated.blocks():
            places = block[:, 1].astype(np.int64)
            rows = np.column_stack([(block[:, 0] >> np.uint64(self._shift)).astype(np.int64), places >> _HALF,
                                    places & _LOW, block[:, 2].astype(np.int64)])
            rows = rows[np.lexsort((rows[:, 1], rows[:, 0]))]
            merged = _merged(rows[:, :3].copy())
            documents, which = np.unique(merged[:, 0], return_inverse=True)
            share = np.bincount(which, merged[:, 2] - merged[:, 1]) / self._lengths[documents]
            gone = documents[(share >= 1) | (share > self._config.max_share) & drop]
            spans.append(merged[~np.isin(merged[:, 0], gone)])
            dropped.append(_with_keepers(rows[np.isin(rows[:, 0], gone)]))
        return np.concatenate(spans), np.concatenate(dropped)


def _merged(spans: "Integers") -> "Integers":
    from argosy.cleaning.kernels.splits import merge

    merged: Integers = spans[: merge(spans)]
    return merged


def _with_keepers(rows: "Integers") -> "Integers":
    """Return (document, the one that keeps most of its parts, the first of equals) of rows by document."""
    import numpy as np

    pairs, which = np.unique(rows[:, [0, 3]], axis=0, return_inverse=True)
    sizes = np.bincount(which, rows[:, 2] - rows[:, 1], minlength=len(pairs))
    order = np.lexsort((pairs[:, 1], -sizes, pairs[:, 0]))
    first = np.unique(pairs[order, 0], return_index=True)[1]
    kept: Integers = pairs[order[first]]
    return kept


def part_records(
    documents: "npt.NDArray[Any]", begins: "npt.NDArray[np.uint32]", ends: "npt.NDArray[np.uint32]", hashes: "Records"
) -> "Iterator[Records]":
    """Yield the records of parts, a million at a time."""
    import numpy as np

    for at in range(0, len(hashes), 2**20):
        some = slice(at, at + 2**20)
        places = (begins[some].astype(np.uint64) << np.uint64(_HALF)) | ends[some].astype(np.uint64)
        yield np.column_stack([hashes[some], documents[some].astype(np.uint64), places])
