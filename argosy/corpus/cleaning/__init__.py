"""Cleaning: filters (one class in one file below `filters/`), their registry and the pass over a corpus."""
