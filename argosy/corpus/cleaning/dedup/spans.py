"""Removal of repeated parts of documents: each part stays in one document, and goes from all others.

Parts come as records (hash, document, place), sorted on disk. A document of which too much would go is dropped whole;
then the parts that it would have kept are given to others, until nothing changes."""

from collections.abc import Iterator, Sequence
from typing import Annotated, ClassVar, TypeVar

from pydantic import Field

from argosy.core.lazy import Array, Flags, Floats, Hashes, Integers, Points, np
from argosy.corpus.cleaning.dedup.corpus import Corpus
from argosy.corpus.cleaning.dedup.deduplicator import Deduplicator
from argosy.corpus.cleaning.dedup.duplicates import DedupConfig, Duplicates
from argosy.corpus.cleaning.dedup.external import Sorter, Workspace

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

    reasons: ClassVar[tuple[str, ...]] = ("mostly parts of earlier documents", "mostly parts of an earlier corpus")
    spans = True

    def _decide(self, corpus: Corpus, parts: Sorter, work: Workspace, within: bool = False) -> Duplicates:
        """Decide about the parts of a corpus, which come as `SpanSelection` takes them."""
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

    def __init__(self, corpus: Corpus, parts: Sorter, config: SpanDedupConfig, lengths: Integers, work: Workspace,
                 within: bool) -> None:
        self._corpus, self._parts, self._config, self._work, self._within = corpus, parts, config, work, within
        self._lengths = lengths
        self._alive = corpus.kept.copy()
        self._dropped: list[Integers] = [np.zeros((0, 2), np.int64)]

    def duplicates(self) -> Duplicates:
        """Decide, round after round: what documents are dropped, and what is removed from others."""
        for turn in range(_ROUNDS + 1):
            repeated = self._repeated()
            spans, over = self._spans(repeated, self._config.max_share if turn < _ROUNDS else 1)
            dropped = self._drops(repeated, over, every=turn == _ROUNDS) if over.any() else self._dropped[0]
            repeated.close()
            self._dropped.append(dropped)
            self._alive[dropped[:, 0]] = False
            if not len(dropped):
                break
        self._parts.close()
        found = np.concatenate(self._dropped)
        return self._corpus.duplicates(found[:, 0], found[:, 1], spans[self._alive[spans[:, 0]]])

    def _repeated(self) -> Sorter:
        """Gather (document in the high bits, begin and end, the document that keeps the part) of all that goes."""
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

    def _losers(self, block: Hashes) -> tuple[Hashes, Integers]:
        """Return the parts of a sorted block that go, and of each the document that keeps it."""
        edge = np.ones(1, np.bool_)
        block = block[self._alive[block[:, 1].astype(np.int64)]]
        if not len(block):
            return block, np.zeros(0, np.int64)
        new = np.concatenate([edge, block[1:, 0] != block[:-1, 0]])
        groups = np.cumsum(new) - 1
        other = new | np.concatenate([edge, block[1:, 1] != block[:-1, 1]])  # documents come in order in a group
        documents = np.bincount(groups, weights=other)[groups]
        enough = documents >= self._config.min_documents
        among = enough | (self._within & (np.bincount(groups)[groups] > documents))
        block, enough, groups = block[among], enough[among], np.unique(groups[among], return_inverse=True)[1]
        if not len(block):
            return block, np.zeros(0, np.int64)
        holders = block[:, 1].astype(np.int64)
        keepers = np.where(enough, self._corpus.stay(groups, holders), holders)  # of too few documents each keeps it
        goes = holders != keepers
        if self._within:
            goes |= ~np.concatenate([edge, (np.diff(groups) != 0) | (np.diff(holders) != 0)])
        goes &= holders >= self._corpus.earlier
        return block[goes], keepers[goes]

    def _spans(self, repeated: Sorter, most: float) -> tuple[Integers, Flags]:
        """Return spans (document, begin, end) of what goes, in order, and whether it is more than the share `most` of a
        document, or all of it, (documents,)."""
        spans, over = [np.zeros((0, 3), np.int64)], np.zeros(len(self._corpus), np.bool_)
        for block in repeated.blocks():
            merged = join_spans(self._rows(block))
            documents, shares = self._shares(merged)
            over[documents] = (shares > most) | (shares >= 1)
            spans.append(merged)
        return np.concatenate(spans), over

    def _drops(self, repeated: Sorter, over: Flags, every: bool) -> Integers:
        """Return (dropped document, the one that keeps most of its parts) of documents of which too much would go.

        What another of them keeps does not count: it stays where that one is dropped. The first of them in the order of
        which stays has none such, so that some are dropped. every: drop them all."""
        dropped = [np.zeros((0, 2), np.int64)]
        for block in repeated.blocks():
            rows = self._rows(block)
            rows = rows[over[rows[:, 0]]]
            sure = rows if every else rows[~over[rows[:, 3]] | (rows[:, 3] == rows[:, 0])]
            documents, shares = self._shares(join_spans(sure))
            gone = documents[every | (shares > self._config.max_share) | (shares >= 1)]
            dropped.append(_with_keepers(sure[np.isin(sure[:, 0], gone)]))
        return np.concatenate(dropped)

    def _rows(self, block: Hashes) -> Integers:
        """Return (document, begin, end, keeper) of records of `_repeated`, in order."""
        places = block[:, 1].astype(np.int64)
        rows = np.column_stack([(block[:, 0] >> np.uint64(self._shift)).astype(np.int64), places >> _HALF,
                                places & _LOW, block[:, 2].astype(np.int64)])
        return rows[np.lexsort((rows[:, 1], rows[:, 0]))]

    def _shares(self, merged: Integers) -> tuple[Integers, Floats]:
        """Return the documents of spans, and the share of each one's characters that is in them."""
        documents, sizes = span_sizes(merged)
        return documents, sizes / self._lengths[documents]


def join_spans(rows: Integers) -> Integers:
    """Join spans that touch or overlap, (document, begin, end, ...) in order."""
    from argosy.corpus.cleaning.kernels.dedup.pieces import merge

    spans = rows[:, :3].copy()
    return spans[: merge(spans)]


def span_sizes(merged: Integers) -> tuple[Integers, Integers]:
    """Return the documents of spans that do not overlap, and how many characters of each are in them."""
    documents, which = np.unique(merged[:, 0], return_inverse=True)
    return documents, np.bincount(which, merged[:, 2] - merged[:, 1], minlength=len(documents)).astype(np.int64)


def without(text: str, spans: Sequence[tuple[int, int]]) -> str:
    """Return the text without these parts of it, which come in order; parts that two filters found may overlap."""
    parts, at = [], 0
    for begin, end in spans:
        parts.append(text[at:begin])
        at = max(at, end)
    return "".join([*parts, text[at:]])


def _with_keepers(rows: Integers) -> Integers:
    """Return (document, the one that keeps most of its parts, the first of equals) of rows by document."""
    pairs, which = np.unique(rows[:, [0, 3]], axis=0, return_inverse=True)
    sizes = np.bincount(which, rows[:, 2] - rows[:, 1], minlength=len(pairs))
    order = np.lexsort((pairs[:, 1], -sizes, pairs[:, 0]))
    first = np.unique(pairs[order, 0], return_index=True)[1]
    return pairs[order[first]]


def part_records(documents: Array, begins: Points, ends: Points, hashes: Hashes) -> Iterator[Hashes]:
    """Yield the records of parts, a million at a time."""
    for at in range(0, len(hashes), 2**20):
        some = slice(at, at + 2**20)
        places = (begins[some].astype(np.uint64) << np.uint64(_HALF)) | ends[some].astype(np.uint64)
        yield np.column_stack([hashes[some], documents[some].astype(np.uint64), places])
