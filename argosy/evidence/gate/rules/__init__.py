"""Rules of a gate: their contract (parameters, findings, the metrics that a pattern covers); each `Rule` with a `name`
in a module here is found by its place."""

import difflib
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, ClassVar

from argosy.core.config.schema import Config
from argosy.core.plugins import Folder

if TYPE_CHECKING:
    from argosy.evidence.gate.subject import Subject

HOLDS, FAILS, CANNOT_TELL = "holds", "fails", "cannot tell"


@dataclass(frozen=True)
class Finding:
    """One finding of a rule."""

    about: str
    """a metric or a benchmark"""
    status: str
    """`holds`, `fails`, or `cannot tell` (evidence is missing or too weak: a gate with one does not hold)"""
    evidence: str
    """numbers in a sentence; of `cannot tell` also what to do"""
    numbers: Mapping[str, float] = field(default_factory=dict)
    """the same for programs; what is not known is left out"""
    p_value: float | None = None
    """p-value of a test, which the gate corrects over all of its tests (Holm)"""
    significant: str = ""
    """the status where the corrected p-value is below the gate's alpha"""
    least: float = 0.0
    """the smallest p-value that the test can reach; where that cannot be below alpha over the number of the gate's
    tests, a test that finds nothing says nothing"""
    p_adjusted: float | None = None


class Rule(Config):
    """Base of the rules: a frozen config, found by its place in `rules/`. Its docstring says what it asks."""

    name: ClassVar[str]

    @abstractmethod
    def look(self, new: "Subject", reference: "Subject | None", alpha: float) -> list[Finding]:
        """Return at least one finding. `reference` is None where there is nothing to hold the checkpoint against."""


RULES: Folder[type[Rule]] = Folder("rule", Rule, __name__)


def unmeasured(pattern: str, names: Sequence[str], label: str, to_do: str = "evaluate it") -> Finding:
    """The finding on a metric or pattern that covers nothing: it is missing, the nearest name, and what to do."""
    near = difflib.get_close_matches(pattern, names, n=1, cutoff=0.8)
    hint = f" (did you mean {near[0]!r}?)" if near else ""
    return Finding(pattern, CANNOT_TELL, f"{pattern}{hint} is not measured for {label}: {to_do}")


def matching(patterns: Sequence[str], names: Sequence[str]) -> tuple[list[str], list[str]]:
    """The names that a pattern (`bench/*/cloze/acc`) covers, sorted; and patterns that cover none."""
    found = {name for name in names for pattern in patterns if fnmatchcase(name, pattern)}
    none = [pattern for pattern in patterns if not any(fnmatchcase(name, pattern) for name in names)]
    return sorted(found), none
