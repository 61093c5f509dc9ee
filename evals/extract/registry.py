"""What a rule is, and the scan that finds them."""

from __future__ import annotations

from functools import cache
from typing import ClassVar, Protocol

from argosy.errors import InputError
from argosy.plugins import classes


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

    found = classes(package, "rules", lambda value: hasattr(value, "extract"))
    return {name: value() for name, value in found.items()}


def rule(name: str) -> Rule:
    """The rule of this name.

    Raises:
        InputError: there is none.
    """
    if name not in rules():
        raise InputError(f"unknown rule {name!r} to extract an answer (there are: {', '.join(rules())})")
    return rules()[name]
