"""Kinds of probes: each module of this package registers one by being there.

A kind is a Config with a `kind` and `measure(model, scope) -> Measurement`; its fields are what a suite may set:

    probes:
      - {name: json_zh, kind: next_token, cases: [{prefix: "以json输出：", text: "{"}]}
"""

import sys
from functools import cache

from argosy.core.plugins import classes
from probes.probe import Probe


@cache
def registered() -> dict[str, type[Probe]]:
    """Collect every kind by its name: the Probe classes in this package's modules."""
    return classes(sys.modules[__name__], "kinds of probes", lambda value: issubclass(value, Probe), key="kind")
