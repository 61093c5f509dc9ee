"""The source files of Python's standard library, read and parsed but never imported."""

import ast
import os
import sysconfig
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from random import Random

LICENSE = "PSF-2.0"

# Third-party code, tests and generated tables.
_LEFT_OUT = frozenset(
    ("site-packages", "dist-packages", "test", "tests", "idlelib", "lib2to3", "turtledemo", "pydoc_data", "encodings")
)

# What differs between machines with the same Python.
_LOCAL = ("_sysconfigdata", "sitecustomize", "config-")


@dataclass(frozen=True)
class SourceFile:
    """A parsed file; `name` is its path below the standard library, with slashes."""

    name: str
    text: str
    tree: ast.Module


def source_files(seed: str | int) -> Iterator[SourceFile]:
    """All files in an order that depends on `seed` and the Python version alone."""
    root = Path(sysconfig.get_path("stdlib"))
    names = list(_names(root))
    Random(f"stdlib/{seed}").shuffle(names)
    for name in names:
        try:
            text = (root / name).read_text(encoding="utf-8")
            yield SourceFile(name, text, ast.parse(text))
        except (UnicodeDecodeError, SyntaxError):
            continue


@cache
def _names(root: Path) -> tuple[str, ...]:
    """Paths below `root` of all Python files but those left out, sorted."""
    found: list[str] = []
    for folder, folders, files in os.walk(root):
        folders[:] = [name for name in folders if name not in _LEFT_OUT and not name.startswith(_LOCAL)]
        below = Path(folder).relative_to(root)
        found += [(below / name).as_posix() for name in files if name.endswith(".py") and not name.startswith(_LOCAL)]
    return tuple(sorted(found))
