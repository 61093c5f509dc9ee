"""Types of deduplication: the choice of the copy that stays, what it goes by, and the answer."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from argosy.core.lazy import Flags, Floats, Integers, np, npt
from argosy.corpus.cleaning.batch import Batch
from argosy.corpus.cleaning.filter import FilterConfig

FORM = ("normalise", "code_channels")  # fields that keys depend on


class DedupConfig(FilterConfig):
    """Base of a deduplicator's config: which of several copies stays."""

    keep: Literal["first", "longest", "best"] = "first"
    """Copy that stays: the first in the corpus, the longest, or the one of the highest `score`; the first of equals."""
    score: str = ""
    """Score that `keep: best` goes by, as `quality.score`; a document without it comes last."""
    priorities: tuple[str, ...] = ()
    """Channels whose copies stay before all others, whatever `keep` says, in this order."""

    def check_fields(self) -> None:
        if (self.keep == "best") != bool(self.score):
            raise ValueError(f"score is {self.score!r} with keep {self.keep!r}: name a score, as 'quality.score', with "
                             "keep 'best' alone")


class FormConfig(FilterConfig):
    """Fields of deduplicators that compare a normal form of texts."""

    normalise: Literal["text", "words"] = "text"
    """Form that is compared: text, with white space and Unicode form (NFC) alone made equal; words, without case, width
    and all signs, so that `12 + 4` and `12 - 4` are copies: for prose alone."""
    code_channels: tuple[str, ...] = ("code",)
    """Channels of code, whose documents are compared by their text whatever `normalise` says."""

    def by_words(self, batch: Batch) -> Flags:
        """Tell which documents are compared by their words, (documents,)."""
        words = self.normalise == "words"
        return np.array([words and each.channel not in self.code_channels for each in batch.documents], np.bool_)


@dataclass(frozen=True)
class About:
    """Properties of all documents, in the order of the corpus, by which the copy that stays is chosen.

    Attributes:
        sizes: documents of each shard.
        channels: number of each document's channel in `names`, (documents,).
        names: names of the channels.
        lengths: characters or bytes, (documents,).
        scores: by "<filter>.<score>", (documents,); those that a config names are enough.
        texts: reads the texts of documents by their numbers, ascending, for deduplicators that compare texts."""

    sizes: Sequence[int]
    channels: Integers
    names: Sequence[str]
    lengths: Integers
    scores: Mapping[str, Floats] = field(default_factory=dict)
    texts: Callable[[Integers], Sequence[str]] | None = None


@dataclass(frozen=True)
class Duplicates:
    """Documents and parts of documents that go, and the originals.

    Attributes:
        documents: numbers of dropped documents in the corpus, ascending, (dropped,), int64.
        of: of each, the number of the document that stays; negative: of an earlier corpus,
            which `Deduplicator.earlier_documents` names; itself where it goes because it repeats itself.
        reasons: of each, why it goes, by its number in the deduplicator's `reasons`, (dropped,), int8.
        spans: what is removed from documents that stay, in order: number of the document, where the span begins and
            ends in its code points; apart from each other, (spans, 3), int64."""

    documents: Integers
    of: Integers
    reasons: "npt.NDArray[np.int8]"
    spans: Integers

    def clusters(self) -> tuple[Integers, Integers]:
        """Return documents that stay, ascending, and how many copies of each are dropped, (clusters,) each."""
        kept, copies = np.unique(self.of, return_counts=True)
        return kept, copies
