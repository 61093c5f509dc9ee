"""Plug-ins: a variant, rule, format, probe, filter, reward, check or command is one file, found by its place."""

import difflib
import importlib
import pkgutil
from collections.abc import Collection, Iterator, Mapping
from functools import cached_property
from types import ModuleType
from typing import Any, TypeVar, get_args

from argosy.core.errors import InputError

T = TypeVar("T")


def names(package: ModuleType) -> list[str]:
    """List the modules of a package, in order."""
    return sorted(info.name for info in pkgutil.iter_modules(package.__path__))


def modules(package: ModuleType) -> dict[str, ModuleType]:
    """Import the modules of a package; by their names, in order."""
    return {name: importlib.import_module(f"{package.__name__}.{name}") for name in names(package)}


def config_of(plugin: type[Any]) -> Any:
    """Return the class of config that a plug-in's class names, as in `class Length(Reward[LengthConfig])`, or at least
    has; None where it names none, which is then its base's."""
    named = [each for base in vars(plugin).get("__orig_bases__", ()) for each in get_args(base)]
    return getattr(named[0], "__bound__", named[0]) if named else None


class Folder(Mapping[str, T]):
    """Plug-ins of a package by name, in order; its modules are imported when it is first read.

    A plug-in is a class derived from `base`, in a module of the package, with a text `key`: its name. A class without
    one is a base of others.

    Attributes:
        kind: word for one of them, in errors.
        packages: names of the packages that are searched.
        instances: whether a plug-in is an instance of its class, and not the class.

    Reading raises RuntimeError: two have the same name."""

    def __init__(self, kind: str, base: type[Any], *packages: str, key: str = "name", instances: bool = False) -> None:
        self.kind, self.base, self.packages, self.key, self.instances = kind, base, packages, key, instances

    @cached_property
    def _plugins(self) -> dict[str, T]:
        everything = [module for each in self.packages for module in modules(importlib.import_module(each)).values()]
        classes: dict[str, Any] = {}
        for module in everything:
            for value in vars(module).values():
                name = self._name(value, module)
                if name and classes.setdefault(name, value) is not value:
                    raise RuntimeError(f"two {self.kind}s are called {name!r}: {classes[name]} and {value}")
        return {name: value() if self.instances else value for name, value in sorted(classes.items())}

    def _name(self, value: object, module: ModuleType) -> str:
        """Return the name of a plug-in that `module` defines; "" for everything else."""
        if not isinstance(value, type) or not issubclass(value, self.base) or value.__module__ != module.__name__:
            return ""
        name = getattr(value, self.key, "")
        return name if isinstance(name, str) else ""

    def __getitem__(self, name: str) -> T:
        return self._plugins[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._plugins)

    def __len__(self) -> int:
        return len(self._plugins)

    def forget(self) -> None:
        """Search again when it is next read: its packages have changed."""
        vars(self).pop("_plugins", None)

    def pick(self, name: str) -> T:
        """Look up a plug-in by its name. Raises InputError: there is none (names the nearest, and all there are)."""
        return pick(name, self, self.kind)

    def unknown(self, name: str) -> str:
        """Say that there is no plug-in of this name, which one is nearest, and all there are."""
        return unknown(name, self, self.kind)


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
