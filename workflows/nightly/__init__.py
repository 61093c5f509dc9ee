"""Nightly evaluation: evaluate new checkpoints, compare each with a reference, announce what got worse, and promote."""

PROMOTIONS = ".promotions"  # folder of the store; here, since pods of an object store name it and need nothing else
