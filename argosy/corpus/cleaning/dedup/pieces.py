"""Removal of pieces that other documents have, by the hash of their normal form: lines (menus, notices, the same
quotation), paragraphs and runs of sentences.

A piece that several documents have stays in one of them, as in CCNet (Wenzek et al. 2020); a run of three
sentences is C4's rule (Raffel et al. 2020). Hashes have 64 bits: of 10^9 pieces two meet with a chance of 3 %."""

from collections.abc import Mapping
from typing import Annotated, ClassVar, Literal, TypeVar

from pydantic import Field

from argosy.core.lazy import np
from argosy.corpus.cleaning.batch import Batch
from argosy.corpus.cleaning.dedup.corpus import Corpus
from argosy.corpus.cleaning.dedup.duplicates import FORM, Duplicates, FormConfig
from argosy.corpus.cleaning.dedup.external import Sorter, Workspace
from argosy.corpus.cleaning.dedup.spans import SpanDedupConfig, SpanDeduplicator, part_records
from argosy.corpus.cleaning.filter import Keys


class PieceDedupConfig(FormConfig, SpanDedupConfig):
    """Base of the config of a deduplicator of pieces."""

    normalise: Literal["text", "words"] = "words"
    """Form that is compared: words, as in CCNet, or text, with white space and Unicode form (NFC) alone made equal."""
    min_characters: Annotated[int, Field(ge=1)] = 20
    """Characters of the words of the shortest piece that is looked at: `}` and `Yes.` repeat by nature."""


P = TypeVar("P", bound=PieceDedupConfig)


class PieceDeduplicator(SpanDeduplicator[P]):
    """A deduplicator of pieces; copies within one document stay."""

    scoring: ClassVar[tuple[str, ...]] = ("min_characters", *FORM)
    unit: ClassVar[str] = "LINES"
    """Kind of the pieces, as `argosy.corpus.cleaning.kernels.dedup.pieces` names it."""
    ragged: ClassVar[Mapping[str, str]] = {"hashes": "counts", "begins": "counts", "ends": "counts"}

    def window(self) -> int:
        """Return how many neighbours are one piece."""
        return 1

    def keys(self, batch: Batch) -> Keys:
        """Return `counts` of pieces and `lengths`, (documents,), and `hashes`, `begins`, `ends`, (sum of counts,)."""
        from argosy.corpus.cleaning.kernels.dedup import pieces
        from argosy.corpus.cleaning.kernels.dedup.exact_dedup import normal_hashes

        begins, ends, first = pieces.split(batch.points, batch.starts, getattr(pieces, self.unit))
        documents = np.repeat(np.arange(len(batch)), np.diff(first))
        if (more := self.window() - 1) > 0:
            whole = documents[:-more] == documents[more:]  # a run ends in the document in which it begins
            begins, ends, documents = begins[:-more][whole], ends[more:][whole], documents[:-more][whole]
        by_words = self.config.by_words(batch)[documents]
        hashes, sizes = normal_hashes(batch.points, begins, ends, by_words)
        if not by_words.all():
            sizes = normal_hashes(batch.points, begins, ends, np.ones_like(by_words))[1]
        long = sizes >= self.config.min_characters
        documents, offsets = documents[long], batch.starts[documents[long]]
        return {
            "counts": np.bincount(documents, minlength=len(batch)).astype(np.int64), "lengths": batch.lengths,
            "hashes": hashes[long, 0], "begins": (begins[long] - offsets).astype(np.uint32),
            "ends": (ends[long] - offsets).astype(np.uint32)}

    def _select(self, corpus: Corpus, work: Workspace) -> Duplicates:
        parts = Sorter(work, "parts", 3, sum(len(keys["hashes"]) for keys in corpus.parts))
        for keys, first, _ in corpus.numbers():
            documents = np.repeat(np.arange(first, first + len(keys["counts"])), keys["counts"])
            for records in part_records(documents, keys["begins"], keys["ends"], keys["hashes"]):
                parts.add(records[corpus.kept[records[:, 1].astype(np.int64)]])
        return self._decide(corpus, parts, work)


class LineDedupConfig(PieceDedupConfig):
    """Config of `line_dedup`."""

    name: str = "line_dedup"


class LineDedup(PieceDeduplicator[LineDedupConfig]):
    """A deduplicator of lines, each with the line break after it."""

    reasons = ("mostly lines of earlier documents", "mostly lines of an earlier corpus")


class ParagraphDedupConfig(PieceDedupConfig):
    """Config of `paragraph_dedup`."""

    name: str = "paragraph_dedup"


class ParagraphDedup(PieceDeduplicator[ParagraphDedupConfig]):
    """A deduplicator of paragraphs, each with the blank lines after it."""

    unit = "PARAGRAPHS"
    reasons = ("mostly paragraphs of earlier documents", "mostly paragraphs of an earlier corpus")


class SentenceDedupConfig(PieceDedupConfig):
    """Config of `sentence_dedup`."""

    name: str = "sentence_dedup"
    sentences: Annotated[int, Field(ge=1)] = 3
    """Sentences of a run; one ends at . ! ? before space, at 。！？…, and at the end of a line."""


class SentenceDedup(PieceDeduplicator[SentenceDedupConfig]):
    """A deduplicator of runs of sentences."""

    scoring = ("min_characters", *FORM, "sentences")
    unit = "SENTENCES"
    reasons = ("mostly sentences of earlier documents", "mostly sentences of an earlier corpus")

    def window(self) -> int:
        """Return the sentences of a run."""
        return self.config.sentences
