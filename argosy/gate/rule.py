"""What a rule is given and what it finds."""

from __future__ import annotations

import difflib
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from functools import cache
from typing import TYPE_CHECKING, ClassVar

from argosy.config import Config
from argosy.plugins import classes

if TYPE_CHECKING:
    from argosy.gate.subject import Subject

HOLDS, FAILS, CANNOT_TELL = "holds", "fails", "cannot tell"


@dataclass(frozen=True)
class Finding:
    """One thing that a rule looked at.

    Attributes:
        about: a metric or a benchmark.
        status: `holds`, `fails`, or `cannot tell` (evidence is missing or too weak: a gate with one does not hold).
        evidence: numbers in a sentence; of `cannot tell` also what to do.
        numbers: the same for programs; what is not known is left out.
        p_value: of a test, which the gate corrects over all of its tests (Holm).
        significant: the status where the corrected p-value is below the gate's alpha.
        least: the smallest p-value that the test can reach; where that cannot be below alpha over the number of the
            gate's tests, a test that finds nothing says nothing.
    """

    about: str
    status: str
    evidence: str
    numbers: Mapping[str, float] = field(default_factory=dict)
    p_value: float | None = None
    significant: str = ""
    least: float = 0.0
    p_adjusted: float | None = None


class Rule(Config):
    """Base of the rules: a frozen config, found by its place in argosy/gate/rules. Its docstring is its help."""

    name: ClassVar[str]

    @abstractmethod
    def look(self, new: Subject, reference: Subject | None, alpha: float) -> list[Finding]:
        """At least one finding. `reference` is None where there is nothing to hold the checkpoint against."""


@cache
def registered() -> dict[str, type[Rule]]:
    """Every rule by its name: the classes with a `name` in argosy/gate/rules."""
    import argosy.gate.rules as package

    return classes(package, "rules", lambda value: issubclass(value, Rule))


def unmeasured(pattern: str, names: Sequence[str], label: str, to_do: str = "evaluate it") -> Finding:
    """Of a metric or pattern that covers nothing: that it is missing, the nearest that there is, and what to do."""
    near = difflib.get_close_matches(pattern, names, n=1, cutoff=0.8)
    hint = f" (did you mean {near[0]!r}?)" if near else ""
    return Finding(pattern, CANNOT_TELL, f"{pattern}{hint} is not measured for {label}: {to_do}")


def matching(patterns: Sequence[str], names: Sequence[str]) -> tuple[list[str], list[str]]:
    """The names that a pattern (`bench/*/cloze/acc`) covers, sorted; and patterns that cover none."""
    found = {name for name in names for pattern in patterns if fnmatchcase(name, pattern)}
    none = [pattern for pattern in patterns if not any(fnmatchcase(name, pattern) for name in names)]
    return sorted(found), none
