"""Compiled loops of deduplication: hashes, normal forms, MinHash, pieces, windows, groups."""
