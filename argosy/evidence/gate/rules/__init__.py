"""Rules of a gate: each `Rule` with a `name` in a module here is found by its place."""

import sys
from functools import cache

from argosy.core.plugins import classes
from argosy.evidence.gate.rule import Rule


@cache
def registered() -> dict[str, type[Rule]]:
    """Return every rule by its name: the classes with a `name` in this package."""
    return classes(sys.modules[__name__], "rules", lambda value: issubclass(value, Rule))
