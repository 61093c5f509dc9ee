"""Plug-ins: a variant, rule, format, probe, filter, reward, check or command is one file, found by its place."""

import difflib
import importlib
import pkgutil
from collections.abc import Callable, Collection, Mapping
from types import ModuleType
from typing import Any, TypeVar

from argosy.core.errors import InputError

T = TypeVar("T")


def names(package: ModuleType) -> list[str]:
    """List the modules of a package, in order."""
    return sorted(info.name for info in pkgutil.iter_modules(package.__path__))


def modules(package: ModuleType) -> dict[str, ModuleType]:
    """Import the modules of a package; by their names, in order."""
    return {name: importlib.import_module(f"{package.__name__}.{name}") for name in names(package)}


def classes(
    package: ModuleType, what: str, is_one: Callable[[type[Any]], bool], key: str = "name"
) -> dict[str, type[Any]]:
    """Find the classes that modules of a package define and that `is_one` takes, by their text `key`, in order; a class
    without it is a base of others.

    `what`: their kind, in the plural, for the error. Raises RuntimeError: two have the same name."""
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


def pick(name: str, among: Mapping[str, T], what: str) -> T:
    """Look up a plug-in by its name. Raises InputError: there is none (names the nearest, and all there are)."""
    if name not in among:
        raise InputError(unknown(name, among, what))
    return among[name]


def unknown(name: str, among: Collection[str], what: str) -> str:
    """Say that there is no `what` of this name, which one is nearest, and all there are."""
    near = difflib.get_close_matches(name, among, n=1, cutoff=0.4)
    hint = f"; did you mean {near[0]!r}?" if near else ""
    return f"unknown {what} {name!r}{hint} (there are: {', '.join(among)})"
