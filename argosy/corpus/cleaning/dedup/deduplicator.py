"""The contract of deduplication: keys of a shard's documents, and a decision when the keys of all shards are there."""

from abc import abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import ClassVar, TypeVar

from argosy.core.errors import InputError
from argosy.core.lazy import Flags, np
from argosy.corpus.cleaning.batch import Batch
from argosy.corpus.cleaning.dedup.corpus import Corpus
from argosy.corpus.cleaning.dedup.duplicates import About, DedupConfig, Duplicates
from argosy.corpus.cleaning.dedup.external import Workspace
from argosy.corpus.cleaning.dedup.index import EarlierDocument, KeyFormat, earlier_documents, read_index, write_index
from argosy.corpus.cleaning.filter import Filter, Keys, Scores

D = TypeVar("D", bound=DedupConfig)


class Deduplicator(Filter[D]):
    """A filter that drops copies: it judges no document alone, and none of its results depends on shards."""

    reasons: ClassVar[tuple[str, ...]] = ("copy of an earlier document", "copy of a document of an earlier corpus")
    """Why a document goes: as a copy within the corpus, of an earlier one, and, where that may be, of itself."""
    ragged: ClassVar[Mapping[str, str]] = {}
    """Keys of which a document has several: name of the values -> name of the counts, which are by document."""
    spans: ClassVar[bool] = False
    """Whether it removes parts of documents, and not documents alone."""
    texts: ClassVar[bool] = False
    """Whether it compares texts too (`About.texts`): an index of a corpus has them then."""

    def __call__(self, batch: Batch) -> tuple[Batch, Scores]:
        return batch, {}

    @abstractmethod
    def keys(self, batch: Batch) -> Keys:
        """Return what copies are recognised by: arrays by document, and those that `ragged` names."""

    def select(self, shards: Sequence[Keys], kept: Flags, about: About, work: Workspace,
               earlier: Sequence[Path] = ()) -> Duplicates:
        """Find the copies among the documents that are kept so far.

        Args:
            shards: keys of the documents, by shard in the order of the corpus.
            kept: whether a document is there at all, (documents,), over all shards.
            work: a directory of this deduplicator's own.
            earlier: directories with an index of an earlier corpus (`write_index`): its documents always stay.

        Raises InputError: `keep` names a score that there is not, or an earlier corpus has no index that fits."""
        if self.config.score and self.config.score not in about.scores:
            raise InputError(f"{self.name}.score is {self.config.score!r}, allowed: {', '.join(sorted(about.scores))}")
        before = read_index(self.key_format(), earlier)
        return self._select(Corpus.gather(before, shards, self._looked_at(kept, about), about, self.config), work)

    @abstractmethod
    def _select(self, corpus: Corpus, work: Workspace) -> Duplicates:
        """Find the copies of a corpus that has the documents of earlier ones first."""

    def write_index(self, out: Path, shards: Sequence[Keys], kept: Flags, about: About,
                    ids: Iterable[Sequence[str]]) -> None:
        """Write to `out`/index what a later run needs to find copies of the documents that are kept at last.

        ids: the ids of each shard's documents, in order."""
        write_index(self.key_format(), out, shards, self._looked_at(kept, about), about, ids)

    def earlier_documents(self, found: Duplicates, earlier: Sequence[Path]) -> list[EarlierDocument]:
        """Name the documents of earlier corpora that some are copies of."""
        return earlier_documents(self.key_format(), earlier, found.of)

    def key_format(self) -> KeyFormat:
        """Tell what keys are and depend on: only equal ones can be compared."""
        parameters = self.config.model_dump(mode="json", include=set(self.scoring))
        return KeyFormat(self.label, parameters, self.ragged, self.texts)

    def _looked_at(self, kept: Flags, about: About) -> Flags:
        skipped = [number for number, name in enumerate(about.names) if name in self.config.skip_channels]
        return kept & ~np.isin(about.channels, skipped) if skipped else kept
