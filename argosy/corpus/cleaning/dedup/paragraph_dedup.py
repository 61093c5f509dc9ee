"""Removal of paragraphs that other documents have; a paragraph ends at a blank line."""

from argosy.corpus.cleaning.dedup.pieces import PieceDedupConfig, PieceDeduplicator


class ParagraphDedupConfig(PieceDedupConfig):
    """Config of `paragraph_dedup`."""

    name: str = "paragraph_dedup"


class ParagraphDedup(PieceDeduplicator[ParagraphDedupConfig]):
    """A deduplicator of paragraphs, each with the blank lines after it."""

    unit = "PARAGRAPHS"
    reasons = ("mostly paragraphs of earlier documents", "mostly paragraphs of an earlier corpus")
