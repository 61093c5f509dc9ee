"""Removal of lines that other documents have (CCNet, Wenzek et al. 2020): menus, notices, the same quotation."""

from argosy.corpus.cleaning.dedup.pieces import PieceDedupConfig, PieceDeduplicator


class LineDedupConfig(PieceDedupConfig):
    """Config of `line_dedup`."""

    name: str = "line_dedup"


class LineDedup(PieceDeduplicator[LineDedupConfig]):
    """A deduplicator of lines, each with the line break after it."""

    reasons = ("mostly lines of earlier documents", "mostly lines of an earlier corpus")
