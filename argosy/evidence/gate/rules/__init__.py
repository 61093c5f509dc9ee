"""Rules of a gate: each `Rule` with a `name` in a module here is found by its place."""

from argosy.core.plugins import Folder
from argosy.evidence.gate.rule import Rule

RULES: Folder[type[Rule]] = Folder("rule", Rule, __name__)
