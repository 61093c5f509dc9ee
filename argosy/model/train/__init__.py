"""The training loop that pretraining, long context and anneal are phases of (see docs/training.md)."""
