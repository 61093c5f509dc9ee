"""What a package finds by its being there: a new variant, rule, format, probe or filter is one new file."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable
from types import ModuleType
from typing import Any


def modules(package: ModuleType) -> dict[str, ModuleType]:
    """The modules of a package by their names, imported, in order."""
    names = sorted(info.name for info in pkgutil.iter_modules(package.__path__))
    return {name: importlib.import_module(f"{package.__name__}.{name}") for name in names}


def classes(
    package: ModuleType, what: str, is_one: Callable[[type[Any]], bool], key: str = "name"
) -> dict[str, type[Any]]:
    """The classes that modules of a package define and that `is_one` takes, by their text `key`, in order; a class
    without it is a base of others.

    Args:
        what: they are, in the plural, for the error.

    Raises:
        RuntimeError: two have the same name.
    """
    found: dict[str, type[Any]] = {}
    for module in modules(package).values():
        for value in vars(module).values():
            if not isinstance(value, type) or value.__module__ != module.__name__ or not is_one(value):
                continue
            name = getattr(value, key, None)
            if not isinstance(name, str) or not name:
                continue
            if name in found:
                raise RuntimeError(f"two {what} are called {name!r}: {found[name]} and {value}")
            found[name] = value
    return dict(sorted(found.items()))
