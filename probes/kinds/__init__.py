"""Kinds of probes: each module of this package registers one by being there.

A kind is a Config with a `kind` and `measure(model, scope) -> Measurement`; its fields are what a suite may set:

    probes:
      - {name: json_zh, kind: next_token, cases: [{prefix: "以json输出：", text: "{"}]}
"""

from argosy.core.plugins import Folder
from probes.probe import Probe

KINDS: Folder[type[Probe]] = Folder("kind", Probe, __name__, key="kind")
