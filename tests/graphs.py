"""The nodes of a pipeline and their digests, by the nodes' ids."""

from pathlib import Path

from workflows.compose import compose
from workflows.graph import Graph, Node
from workflows.lifecycle import lifecycle


def nodes(*overrides: str, preset: str = "tiny", file: Path | None = None) -> dict[str, Node]:
    """The nodes that a preset makes, or a config file, with these overrides."""
    return {node.id: node for node in lifecycle(compose(None if file else preset, file, overrides))}


def digests(*overrides: str, preset: str = "tiny", file: Path | None = None) -> dict[str, str]:
    """Their digests."""
    graph = Graph(nodes(*overrides, preset=preset, file=file).values())
    return {node.id: graph.digest(node) for node in graph.nodes}
