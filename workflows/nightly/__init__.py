"""Nightly evaluation: evaluate new checkpoints, compare each with a reference, announce what got worse, and promote."""
