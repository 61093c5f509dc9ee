"""Kinds of probes: each module of this package registers one by being there.

A kind is a Config with a `kind` and `measure(model, scope) -> Measured`; its fields are what a suite may set:

    probes:
      - {name: json_zh, kind: next_token, cases: [{prefix: "以json输出：", text: "{"}]}
"""

from __future__ import annotations

import importlib
import pkgutil
from functools import cache

from probes.probe import Probe


@cache
def registered() -> dict[str, type[Probe]]:
    """Every kind by its name: the Probe classes in this package's modules."""
    found: dict[str, type[Probe]] = {}
    for info in pkgutil.iter_modules(__path__):
        module = importlib.import_module(f"{__name__}.{info.name}")
        for value in vars(module).values():
            if isinstance(value, type) and issubclass(value, Probe) and value.__module__ == module.__name__:
                if value.kind in found:
                    raise RuntimeError(f"two kinds of probes are called {value.kind!r}: {found[value.kind]}, {value}")
                found[value.kind] = value
    return dict(sorted(found.items()))
