"""Removal of runs of sentences that other documents have: C4's rule of three sentences (Raffel et al. 2020)."""

from typing import Annotated

from pydantic import Field

from argosy.corpus.cleaning.dedup.duplicates import FORM
from argosy.corpus.cleaning.dedup.pieces import PieceDedupConfig, PieceDeduplicator


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
