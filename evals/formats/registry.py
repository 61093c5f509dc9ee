"""The scan that finds formats."""

from __future__ import annotations

import difflib
from functools import cache

from argosy.errors import InputError
from argosy.plugins import classes
from evals.formats.format import Format

BY_SUFFIX = {".jsonl": "argosy", ".csv": "mmlu"}  # where a task names no format


@cache
def registered() -> dict[str, Format]:
    """Every format by its name: the classes with a `name` in this package's modules."""
    import evals.formats as package

    found = classes(package, "formats", lambda value: issubclass(value, Format))
    return {name: value() for name, value in found.items()}


def find_format(name: str, suffix: str = "") -> Format:
    """The format of that name; of no name, the one that files of this suffix have.

    Raises:
        InputError: there is none (names the nearest, or what suffixes there are).
    """
    name = name or BY_SUFFIX.get(suffix, "")
    if not name:
        raise InputError(f"items are read from {', '.join(BY_SUFFIX)}; for another suffix than these say `format`")
    if name not in registered():
        near = difflib.get_close_matches(name, registered(), n=1, cutoff=0.4)
        hint = f"; did you mean {near[0]!r}?" if near else ""
        raise InputError(f"unknown format {name!r}{hint} (there are: {', '.join(registered())})")
    return registered()[name]
