"""Rules: a module is a rule of its name and has `fault(generated) -> bool | None`.

True: the fault is there. None: the rule says nothing of this answer (it is about another language or format), so it
counts in no share.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from functools import cache

from argosy.plugins import modules
from argosy.quality.rule import Generated

Rule = Callable[[Generated], "bool | None"]


@cache
def registered() -> Mapping[str, Rule]:
    """Every rule by its name."""
    return {name: module.fault for name, module in modules(sys.modules[__name__]).items()}


def faults(generated: Generated) -> dict[str, bool]:
    """Of each rule that applies to this answer, whether the fault is there."""
    found = {name: rule(generated) for name, rule in registered().items()}
    return {name: fault for name, fault in found.items() if fault is not None}
