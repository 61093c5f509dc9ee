"""What a rule is, and the scan that finds them."""

from __future__ import annotations

import importlib
import pkgutil
from functools import cache
from typing import ClassVar, Protocol

from argosy.errors import InputError


class Rule(Protocol):
    """Finds an answer in a text."""

    name: ClassVar[str]

    def extract(self, text: str, labels: str) -> str | None:
        """The answer in canonical form, or None where the text holds none. `labels`: those of the options."""

    def canonical(self, answer: str) -> str:
        """The form in which the right answer equals what `extract` finds."""

    def closing(self, answer: str, lang: str) -> str:
        """How a worked example ends, so that this rule finds `answer` in it."""


@cache
def rules() -> dict[str, Rule]:
    """Every rule by its name: the classes with a `name` and `extract` in this package's modules."""
    import evals.extract as package

    found: dict[str, Rule] = {}
    for module_info in pkgutil.iter_modules(package.__path__):
        module = importlib.import_module(f"{package.__name__}.{module_info.name}")
        for value in vars(module).values():
            is_rule = isinstance(value, type) and value.__module__ == module.__name__ and hasattr(value, "extract")
            if is_rule and isinstance(getattr(value, "name", None), str):
                found[value.name] = value()
    return dict(sorted(found.items()))


def rule(name: str) -> Rule:
    """The rule of this name.

    Raises:
        InputError: there is none.
    """
    if name not in rules():
        raise InputError(f"unknown rule {name!r} to extract an answer (there are: {', '.join(rules())})")
    return rules()[name]
