"""Compiler of all loops, before anybody waits for them: `python -m argosy.corpus.cleaning.kernels`.

They go where numba keeps them (NUMBA_CACHE_DIR). Each loop has the types that it takes, so importing it compiles it."""

from importlib import import_module
from pkgutil import walk_packages

import argosy.corpus.cleaning.kernels as package

for each in walk_packages(package.__path__, f"{package.__name__}."):
    if not each.name.endswith("__main__"):
        import_module(each.name)
