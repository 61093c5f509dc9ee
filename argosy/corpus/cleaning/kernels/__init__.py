"""Compiled loops over batches of documents (numba): imported inside functions, since compilers load slowly.

A file is called as the filter that it serves; those of no filter serve several. Each loop has the types that it takes
(types.py), and tests hold it to plain Python.

Images hold them compiled (`python -m argosy.corpus.cleaning.kernels`), in a folder that nobody may write. Numba uses a
cache only where it may write, so it gets a folder of links to them, and what it compiles itself lies beside these."""

import os
from contextlib import suppress

COMPILED = "ARGOSY_COMPILED"  # the image's folder
CACHE = "NUMBA_CACHE_DIR"  # numba's own variable


def link_compiled(compiled: str, cache: str) -> None:
    """Make the folder `cache` of links to the files of `compiled`, whole or not at all; none where it is there."""
    import shutil

    if not os.path.isdir(compiled) or os.path.isdir(cache):
        return
    made = f"{cache}.{os.getpid()}"
    with suppress(OSError):  # another process was faster, or nobody may write: numba does without
        for folder, _, files in os.walk(compiled):
            to = os.path.join(made, os.path.relpath(folder, compiled))
            os.makedirs(to)
            for name in files:
                os.symlink(os.path.join(folder, name), os.path.join(to, name))
        os.rename(made, cache)
    shutil.rmtree(made, ignore_errors=True)


if os.environ.get(COMPILED) and os.environ.get(CACHE):
    link_compiled(os.environ[COMPILED], os.environ[CACHE])
