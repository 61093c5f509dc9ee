"""Deduplication, a module a method: keys by shard, a decision when all shards are there, memory that is bounded."""

from argosy.corpus.cleaning.dedup.deduplicator import Deduplicator
from argosy.corpus.cleaning.dedup.duplicates import About, Duplicates
from argosy.corpus.cleaning.dedup.external import Workspace

__all__ = ["About", "Deduplicator", "Duplicates", "Workspace"]
