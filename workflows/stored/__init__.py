"""The results in a store: the last run, what each was made from, checkpoints by name."""
