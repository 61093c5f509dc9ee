"""A pipeline as plain data: nodes in their order, and what each is made from."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from graphlib import CycleError, TopologicalSorter
from typing import Any

from argosy.errors import InputError
from argosy.identity import Identities
from argosy.provenance import made_from
from workflows.node import Node, Resources, check_node, prefix

__all__ = ["Graph", "Node", "Resources"]


class Graph:
    """Checked nodes in an order in which each comes after what it depends on, with their digests.

    Args:
        nodes: all of them; their order is kept where it is possible.
        identities: of external files; in memory unless given.

    Raises:
        InputError: a duplicate, a cycle, an unknown step or field, an external file that does not exist.
    """

    def __init__(self, nodes: Iterable[Node], identities: Identities | None = None) -> None:
        self._by_id = _unique(nodes)
        for node in self._by_id.values():
            check_node(node, self._by_id)
        self.nodes = _ordered(self._by_id)
        self._records: dict[str, dict[str, Any]] = {}
        identities = identities or Identities()
        for node in self.nodes:
            self._records[node.id] = self._made_from(node, identities)

    @property
    def stages(self) -> list[str]:
        """Names of nodes in order of their first appearance."""
        return list(dict.fromkeys(node.name for node in self.nodes))

    def made_from(self, node: Node) -> dict[str, Any]:
        """The record that the node's `outputs.json` will carry."""
        return self._records[node.id]

    def digest(self, node: Node) -> str:
        """Changes when the step's version, its config, anything upstream or an external file changes."""
        digest: str = self._records[node.id]["digest"]
        return digest

    def directory(self, node: Node, store: str) -> str:
        """`<store>/<name>[-<part>]-<digest>`, or where a finished node lies."""
        if node.finished:
            return node.finished.directory
        return f"{store}/{prefix(node.name, node.part)}-{self.digest(node)}"

    def _made_from(self, node: Node, identities: Identities) -> dict[str, Any]:
        if node.finished:
            return dict(node.finished.record)
        upstream = {name: [self.digest(n) for n in nodes] for name, nodes in node.upstream.items()}
        return made_from(node.definition, node.config, node=node.name, part=node.part, upstream=upstream,
                         external=identities.of_config(node.config, node.name))


def _unique(nodes: Iterable[Node]) -> dict[str, Node]:
    found: dict[str, Node] = {}
    for node in nodes:
        if node.id in found:
            raise InputError(f"two nodes are called {node.id!r}: parts of one name need different `part`s")
        found[node.id] = node
    return found


def _ordered(by_id: Mapping[str, Node]) -> list[Node]:
    graph = {key: [n.id for nodes in node.upstream.values() for n in nodes] for key, node in by_id.items()}
    seen: set[str] = set()
    for key, upstream in graph.items():
        if not seen.issuperset(upstream):
            break
        seen.add(key)
    else:
        return list(by_id.values())  # the given order is good
    try:
        return [by_id[key] for key in TopologicalSorter(graph).static_order()]
    except CycleError as error:
        raise InputError(f"the graph has a cycle: {' <- '.join(error.args[1])}") from None
