"""Compiled loops over batches of documents (numba): imported inside functions, since compilers load slowly."""
