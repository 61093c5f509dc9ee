"""Removal of exact substrings that stand anywhere else in the corpus (Lee et al. 2022), without a suffix array.

A suffix array needs nine times the text in memory, or days on disk. Here every window of `length` characters has a
fingerprint (winnowing, Schleimer et al. 2003), and equal windows have equal ones: fingerprints that come once are out,
and of the few texts that are left each window is hashed and sorted on disk. What goes is what a comparison of all
windows with all others would find, up to equal 64-bit hashes of different windows."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, ClassVar

from pydantic import Field

from argosy.core.lazy import Flags, Hashes, Integers, Points, np
from argosy.corpus.cleaning.batch import Batch, chunks
from argosy.corpus.cleaning.dedup.corpus import Corpus
from argosy.corpus.cleaning.dedup.duplicates import Duplicates
from argosy.corpus.cleaning.dedup.external import Sorter, Workspace
from argosy.corpus.cleaning.dedup.spans import SpanDedupConfig, SpanDeduplicator, part_records
from argosy.corpus.cleaning.filter import Keys

_EXPECTED = 8  # windows a shared fingerprint, to make room for
_CHARACTERS = 1_000_000  # of texts that are looked at together; fewer where memory is small


class SubstringDedupConfig(SpanDedupConfig):
    """Config of `substring_dedup`."""

    name: str = "substring_dedup"
    length: Annotated[int, Field(ge=8)] = 200
    """Characters (code points) of the shortest substring: about 50 tokens of English."""


class SubstringDedup(SpanDeduplicator[SubstringDedupConfig]):
    """A deduplicator of substrings: of those that come twice, within one document too, all but one go."""

    scoring = ("length",)
    ragged: ClassVar[Mapping[str, str]] = {"fingerprints": "counts"}
    reasons = ("mostly text of earlier documents", "mostly text of an earlier corpus", "mostly repeats itself")
    texts = True

    def keys(self, batch: Batch) -> Keys:
        """Return `counts` of fingerprints and `lengths`, (documents,), and `fingerprints`, (sum of counts,), uint64."""
        from argosy.corpus.cleaning.kernels.dedup.substring_dedup import fingerprints

        values, counts = fingerprints(batch.points, batch.starts, self.config.length)
        return {"fingerprints": values, "counts": counts, "lengths": batch.lengths}

    def _select(self, corpus: Corpus, work: Workspace) -> Duplicates:
        shared = self._shared(corpus, work)
        parts = Sorter(work, "parts", 3, _EXPECTED * self.config.length * int(np.count_nonzero(shared)) // 4)
        for records in self._windows(corpus, shared, work):
            begins = records[:, 2].astype(np.uint32)
            for some in part_records(records[:, 1], begins, begins + np.uint32(self.config.length), records[:, 0]):
                parts.add(some)
        return self._decide(corpus, parts, work, within=True)

    def _shared(self, corpus: Corpus, work: Workspace) -> Flags:
        """Tell of each fingerprint, part after part, whether it comes again among the documents that are kept."""
        total = sum(len(keys["fingerprints"]) for keys in corpus.parts)
        sorter = Sorter(work, "fingerprints", 2, total)
        at = 0
        for keys, first, _ in corpus.numbers():
            kept = np.repeat(corpus.kept[first : first + len(keys["counts"])], keys["counts"])
            places = np.arange(at, at + len(kept), dtype=np.uint64)[kept]
            sorter.add(np.column_stack([keys["fingerprints"][kept], places]))
            at += len(kept)
        shared = work.array("shared", (total,), np.bool_)
        for block in sorter.blocks():
            same = block[1:, 0] == block[:-1, 0]
            shared[block[1:, 1][same].astype(np.int64)] = True
            shared[block[:-1, 1][same].astype(np.int64)] = True
        sorter.close()
        return shared

    def _windows(self, corpus: Corpus, shared: Flags, work: Workspace) -> Iterator[Hashes]:
        """Yield (hash, document, begin) of the windows whose fingerprint is shared, in order."""
        from argosy.corpus.cleaning.kernels.dedup.substring_dedup import windows

        at, most = 0, min(_CHARACTERS, work.bytes // 64)
        for keys, first, _ in corpus.numbers():
            firsts = at + np.concatenate([np.zeros(1, np.int64), np.cumsum(keys["counts"])])
            at = int(firsts[-1])
            marks = np.concatenate([np.zeros(1, np.int64), np.cumsum(shared[firsts[0] : at])])
            rows = np.flatnonzero(np.diff(marks[firsts - firsts[0]]))
            for some in chunks(rows, keys["lengths"][rows], most):
                numbers = some + first
                points, starts = _coded(corpus.texts(numbers))
                yield windows(points, starts, self.config.length, numbers.astype(np.uint64), shared, firsts[some])


def _coded(texts: Sequence[str]) -> tuple[Points, Integers]:
    """Return the code points of texts end to end, and where each begins, and the end."""
    starts = np.concatenate([np.zeros(1, np.int64), np.cumsum([len(text) for text in texts], dtype=np.int64)])
    return np.frombuffer("".join(texts).encode("utf-32-le", "surrogatepass"), np.uint32), starts
