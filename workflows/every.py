"""The graph of all stages that a pipeline may have: what a cluster has templates for."""

from dataclasses import replace

from steps.start import StartConfig
from workflows.graph import Node
from workflows.lifecycle import LifecycleConfig, all_but_start, lifecycle, stage_steps


def every_stage() -> list[Node]:
    """Build the graph of all stages, each depending on all that it may depend on."""
    others = tuple(name for name in stage_steps() if name not in ("classifier", "tokenizer"))
    started = LifecycleConfig(start=StartConfig(model="."), stages=others)
    upstream: dict[str, dict[str, None]] = {}
    found: dict[str, Node] = {}
    for node in (*lifecycle(all_but_start()), *lifecycle(started)):
        found.setdefault(node.id, node)
        upstream.setdefault(node.id, {}).update((o.id, None) for nodes in node.upstream.values() for o in nodes)
    merged: dict[str, Node] = {}
    order = list(stage_steps())
    for node in sorted(found.values(), key=lambda node: order.index(node.name)):
        merged[node.id] = replace(node, inputs={"upstream": [merged[name] for name in upstream[node.id]]})
    return list(merged.values())
