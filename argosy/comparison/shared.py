"""What two checkpoints were both asked: of that alone are they compared."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from argosy.comparison.values import Value

ASKED_OTHERWISE = ("questions of the same names have another prompt, other examples, another right option or other "
                   "options")


@dataclass(frozen=True)
class Shared:
    """What two checkpoints were both asked.

    Attributes:
        keys: what can be paired, in order.
        otherwise: how many have the same name and were asked otherwise; they are left out.
        others: whether names mean other questions, or documents, for each: then none can be paired.
    """

    keys: list[str]
    otherwise: int
    others: bool


def shared(first: Mapping[str, Value], second: Mapping[str, Value]) -> Shared:
    """What both have, of which what was asked is not known to differ."""
    both = sorted(first.keys() & second.keys())
    keys = [key for key in both if not first[key].asked_otherwise(second[key])]
    checks = ((first[key].check, second[key].check) for key in keys)
    return Shared(keys, len(both) - len(keys), any(None not in (a, b) and a != b for a, b in checks))
