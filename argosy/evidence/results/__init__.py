"""Scoring of checkpoints: log-probabilities with shared prefixes, held-out loss, and what an evaluation returns."""
