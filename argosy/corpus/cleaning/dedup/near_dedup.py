"""Removal of near copies: MinHash of word shingles (Broder 1997) and locality-sensitive hashing.

Two documents become candidates where one band of their signatures is equal, which happens with the chance
1 - (1 - J^rows)^bands for a Jaccard index J of their shingles. Candidates are compared by their sketches, the least
hashes of their shingles; those that are alike are joined to clusters, and of a cluster one document stays."""

from collections.abc import Iterator, Mapping
from typing import Annotated, ClassVar, Literal

from pydantic import Field

from argosy.core.lazy import Hashes, Integers, Points, np
from argosy.corpus.cleaning.batch import Batch
from argosy.corpus.cleaning.dedup.corpus import Corpus
from argosy.corpus.cleaning.dedup.deduplicator import Deduplicator
from argosy.corpus.cleaning.dedup.duplicates import FORM, DedupConfig, Duplicates, FormConfig
from argosy.corpus.cleaning.dedup.external import Sorter, Workspace
from argosy.corpus.cleaning.filter import Keys

_BUCKET = 4096  # documents of a bucket that are looked at together: each piece of a larger one has the first of it
_MEMBERS = 2**20  # documents of clusters that are looked at together
_COMPARED = 128  # earlier documents of a bucket, of other clusters, with which one is compared


class NearDedupConfig(FormConfig, DedupConfig):
    """Size of the signatures, and the similarity of copies."""

    name: str = "near_dedup"
    normalise: Literal["text", "words"] = "words"
    """Units of shingles: words alone, or text, in which a run of signs is a word too."""
    similarity: Annotated[float, Field(gt=0, le=1)] = 0.75
    """Jaccard index of shingles from which on two documents are copies."""
    shingle: Annotated[int, Field(ge=1)] = 5
    """Words of a shingle (a Han character is a word); shorter documents pass."""
    bands: Annotated[int, Field(ge=1)] = 20
    """Bands of a signature, one of which copies share."""
    rows: Annotated[int, Field(ge=1)] = 5
    """Hashes of a band."""
    sketch: Annotated[int, Field(ge=0)] = 512
    """Hashes of shingles by which candidates are compared: exact for documents that have fewer, and for others with a
    standard error of sqrt(J (1 - J) / sketch). 0: candidates count as copies, and `similarity` is not looked at."""

    def chance(self, similarity: float) -> float:
        """Return the probability that two documents of this Jaccard index become candidates."""
        return float(1 - (1 - similarity**self.rows) ** self.bands)


class NearDedup(Deduplicator[NearDedupConfig]):
    """A deduplicator of like texts."""

    scoring = ("shingle", "bands", "rows", "sketch", *FORM)
    reasons = ("near copy of an earlier document", "near copy of a document of an earlier corpus")
    ragged: ClassVar[Mapping[str, str]] = {"sketches": "counts"}

    def keys(self, batch: Batch) -> Keys:
        """Return `bands`, (documents, bands), uint64, `counts`, (documents,), and `sketches`, (sum of counts,)."""
        from argosy.corpus.cleaning.kernels.dedup.near_dedup import minhash
        from argosy.corpus.cleaning.kernels.words import words as split

        config, words = self.config, batch.words
        if not (by_words := config.by_words(batch)).all():
            words = split(batch.points, batch.starts, ~by_words)
        return minhash(words.hashes, words.first, config.shingle, config.bands, config.rows, config.sketch)._asdict()

    def _select(self, corpus: Corpus, work: Workspace) -> Duplicates:
        from argosy.corpus.cleaning.kernels.dedup.near_dedup import begin, join_groups

        sketches = Sketches(corpus, work)
        parents = work.array("parents", (len(corpus),), np.int64)
        begin(parents)
        sorter = self._buckets(corpus, work)
        for block in sorter.blocks():
            for documents, starts in _groups(block, max(work.bytes // (16 * (self.config.sketch + 8)), 1)):
                if self.config.sketch:
                    sketches.join(parents, documents, starts, self.config.sketch, self.config.similarity)
                else:
                    join_groups(parents, documents, starts)
        sorter.close()
        return self._decide(corpus, parents)

    def _decide(self, corpus: Corpus, parents: Integers) -> Duplicates:
        """Choose which document of each set stays."""
        from argosy.corpus.cleaning.kernels.dedup.near_dedup import members

        found, roots = members(parents)
        order = np.argsort(roots, kind="stable")
        found, groups = found[order], np.cumsum(np.diff(roots[order], prepend=-1) != 0) - 1
        stays = np.empty_like(found)
        at = 0
        while at < len(found):
            end = int(np.searchsorted(groups, groups[min(at + _MEMBERS, len(groups) - 1)], "right"))
            stays[at:end] = corpus.stay(groups[at:end] - groups[at], found[at:end])
            at = end
        return corpus.duplicates(found[found != stays], stays[found != stays])

    def _buckets(self, corpus: Corpus, work: Workspace) -> Sorter:
        """Gather (band key, document) of all documents that have shingles."""
        bands = self.config.bands
        sorter = Sorter(work, "bands", 2, int(corpus.kept.sum()) * bands)
        step = max(work.bytes // (64 * bands), 1)
        for keys, first, rows in corpus.numbers():
            rows = rows[keys["counts"][rows] > 0]
            for at in range(0, len(rows), step):
                some = rows[at : at + step]
                records = np.empty((len(some), bands, 2), np.uint64)
                records[:, :, 0] = keys["bands"][some]
                records[:, :, 1] = (some + first).astype(np.uint64)[:, None]
                sorter.add(records.reshape(-1, 2))
        return sorter


def _groups(block: Hashes, most: int) -> Iterator[tuple[Integers, Integers]]:
    """Yield buckets of several documents as (documents, where buckets begin, and the end), about `most` at a time."""
    if not len(block):
        return
    edge = np.ones(1, np.bool_)
    bounds = np.flatnonzero(np.concatenate([edge, block[1:, 0] != block[:-1, 0], edge]))
    sizes = np.diff(bounds)
    documents = block[np.repeat(sizes > 1, sizes), 1].astype(np.int64)
    starts = np.concatenate([np.zeros(1, np.int64), np.cumsum(sizes[sizes > 1])])
    if sizes.max(initial=0) > _BUCKET:
        documents, starts = _parted(documents, starts)
    at = 0
    while at < len(starts) - 1:
        end = max(int(np.searchsorted(starts, starts[at] + most, "right")) - 1, at + 1)
        yield documents[starts[at] : starts[end]], starts[at : end + 1] - starts[at]
        at = end


def _parted(documents: Integers, starts: Integers) -> tuple[Integers, Integers]:
    """Cut buckets into pieces of `_BUCKET` documents, each with the bucket's first before it."""
    pieces = []
    for begin, end in zip(starts[:-1].tolist(), starts[1:].tolist(), strict=True):
        pieces.append(documents[begin : min(begin + _BUCKET, end)])
        pieces += [np.concatenate([documents[begin : begin + 1], documents[at : min(at + _BUCKET, end)]])
                   for at in range(begin + _BUCKET, end, _BUCKET)]
    return np.concatenate(pieces), np.cumsum([0, *map(len, pieces)])


class Sketches:
    """The sketches of all documents, read from the shards' files as they are needed."""

    def __init__(self, corpus: Corpus, work: Workspace) -> None:
        self._corpus = corpus
        self._offsets = work.array("offsets", (len(corpus),), np.int64)
        for part, first, end in zip(corpus.parts, corpus.firsts[:-1], corpus.firsts[1:], strict=True):
            if end > first:
                np.cumsum(part["counts"][:-1], out=self._offsets[first + 1 : end])

    def join(self, parents: Integers, documents: Integers, starts: Integers, most: int, similarity: float) -> None:
        """Join the documents of each bucket that are alike."""
        from argosy.corpus.cleaning.kernels.dedup.near_dedup import Sketched, join_alike

        distinct, places = np.unique(documents, return_inverse=True)
        values, offsets = self._read(distinct)
        join_alike(parents, documents, starts, Sketched(places, values, offsets, most), similarity, _COMPARED)

    def _read(self, documents: Integers) -> tuple[Points, Integers]:
        """Return the sketches of documents, ascending, end to end, and where each begins."""
        from argosy.corpus.cleaning.kernels.dedup.near_dedup import gather

        corpus = self._corpus
        bounds = np.searchsorted(documents, corpus.firsts)
        pieces = np.flatnonzero(np.diff(bounds)).tolist()
        counts = np.concatenate([
            corpus.parts[part]["counts"][documents[bounds[part] : bounds[part + 1]] - corpus.firsts[part]]
            for part in pieces])
        offsets = np.concatenate([np.zeros(1, np.int64), np.cumsum(counts)])
        values = np.empty(offsets[-1], np.uint32)
        for part in pieces:
            low, high = bounds[part], bounds[part + 1]
            gather(np.asarray(corpus.parts[part]["sketches"]), self._offsets[documents[low:high]], counts[low:high],
                   values, offsets[low])
        return values, offsets
