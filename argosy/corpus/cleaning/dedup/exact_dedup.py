"""Removal of copies: documents whose text differs at most in white space and Unicode form, or has the same words.

Texts are compared by a 128-bit hash of their normal form (`argosy.corpus.text.scripts`): among 10^12 documents two
different ones meet with a chance of 10^-15."""

from typing import ClassVar

from argosy.core.lazy import Hashes, Integers, np
from argosy.corpus.cleaning.batch import Batch
from argosy.corpus.cleaning.dedup.corpus import Corpus
from argosy.corpus.cleaning.dedup.deduplicator import Deduplicator
from argosy.corpus.cleaning.dedup.duplicates import FORM, DedupConfig, Duplicates, FormConfig
from argosy.corpus.cleaning.dedup.external import Sorter, Workspace
from argosy.corpus.cleaning.filter import Keys


class ExactDedupConfig(FormConfig, DedupConfig):
    """Form that is compared; no thresholds."""

    name: str = "exact_dedup"


class ExactDedup(Deduplicator[ExactDedupConfig]):
    """A deduplicator of equal texts: 16 bytes a document on disk, 24 bytes a document through the sort."""

    scoring: ClassVar[tuple[str, ...]] = FORM

    def keys(self, batch: Batch) -> Keys:
        """Return `hashes`, (documents, 2), uint64."""
        from argosy.corpus.cleaning.kernels.dedup.exact_dedup import normal_hashes

        by_words = self.config.by_words(batch)
        return {"hashes": normal_hashes(batch.points, batch.starts[:-1], batch.starts[1:], by_words)[0]}

    def _select(self, corpus: Corpus, work: Workspace) -> Duplicates:
        sorter = Sorter(work, "hashes", 3, int(corpus.kept.sum()))
        for keys, first, rows in corpus.numbers():
            sorter.add(np.column_stack([keys["hashes"][rows], (rows + first).astype(np.uint64)]))
        documents, of = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)]
        for block in sorter.blocks():
            found, groups = _copies(block)
            if len(found):
                stays = corpus.stay(groups, found)
                documents.append(found[found != stays])
                of.append(stays[found != stays])
        sorter.close()
        return corpus.duplicates(np.concatenate(documents), np.concatenate(of))


def _copies(block: Hashes) -> tuple[Integers, Integers]:
    """Return documents whose hash others have too, and the number of each one's group, from 0, ascending."""
    same = (block[1:, :2] == block[:-1, :2]).all(axis=1)
    if (block[1:, 0] == block[:-1, 0]).sum() != same.sum():  # halves of hashes are equal, not all of them
        block = block[np.lexsort((block[:, 2], block[:, 1], block[:, 0]))]
        same = (block[1:, :2] == block[:-1, :2]).all(axis=1)
    edge = np.zeros(1, np.bool_)
    after, before = np.concatenate([edge, same]), np.concatenate([same, edge])
    among = after | before
    groups = np.cumsum(~after[among]) - 1
    return block[among, 2].astype(np.int64), groups
