"""Which node is next: pure bookkeeping, no processes."""

from __future__ import annotations

import heapq
import math
from collections import defaultdict
from collections.abc import Iterable

from workflows.local.budget import Budget
from workflows.node import Resources
from workflows.plan import Plan, PlannedNode

Group = tuple[str, str, Resources]  # name, step, resources: what may share a process


class Scheduler:
    """Ready nodes by priority, within a budget.

    Priority is the length of the longest chain of nodes that waits for a node (critical path first). The first in
    line keeps its place: nothing behind it starts while it does not fit, else a node that needs the whole machine
    would wait for ever behind small ones.
    """

    def __init__(self, plan: Plan, budget: Budget) -> None:
        self._budget = budget
        self._nodes = {node.id: node for node in plan.to_run}
        self._order = {key: index for index, key in enumerate(self._nodes)}
        self._waits_for = {key: {u for u in node.upstream if u in self._nodes} for key, node in self._nodes.items()}
        self._downstream: dict[str, list[str]] = defaultdict(list)
        for key, upstream in self._waits_for.items():
            for other in upstream:
                self._downstream[other].append(key)
        self._priority = self._longest_paths()
        self._ready: dict[Group, list[tuple[int, int, str]]] = defaultdict(list)
        self._open = set(self._nodes)  # neither ended nor blocked
        for key, upstream in self._waits_for.items():
            if not upstream:
                self._push(key)

    @property
    def unfinished(self) -> list[PlannedNode]:
        """Nodes that have neither ended nor been blocked."""
        return [self._nodes[key] for key in self._nodes if key in self._open]

    def start(self) -> list[PlannedNode]:
        """Nodes to start now in one process, their resources reserved; empty if nothing fits or is ready."""
        if not self._ready:
            return []
        group = min(self._ready, key=lambda g: self._ready[g][0])
        slots = self._budget.slots(group[2])
        if slots == 0:
            return []
        heap = self._ready[group]
        share = math.ceil(len(heap) / slots)  # do not put all parts into one process while others could share them
        count = min(self._nodes[heap[0][2]].batch, share)
        keys = [heapq.heappop(heap)[2] for _ in range(max(1, count))]
        if not heap:
            del self._ready[group]
        self._budget.take(group[2])
        return [self._nodes[key] for key in keys]

    def ended(self, resources: Resources) -> None:
        """A process ended: its resources are free."""
        self._budget.give_back(resources)

    def again(self, nodes: Iterable[PlannedNode]) -> None:
        """Nodes whose process died before it came to them are ready again."""
        for node in nodes:
            self._push(node.id)

    def succeeded(self, node: PlannedNode) -> None:
        """`node` is done; what waited for it alone is ready."""
        self._open.discard(node.id)
        for key in self._downstream[node.id]:
            self._waits_for[key].discard(node.id)
            if not self._waits_for[key] and key in self._open:
                self._push(key)

    def failed(self, node: PlannedNode) -> list[PlannedNode]:
        """`node` failed; returns what depends on it and thus can't run."""
        self._open.discard(node.id)
        blocked, todo = [], list(self._downstream[node.id])
        while todo:
            key = todo.pop()
            if key in self._open:
                self._open.discard(key)
                blocked.append(self._nodes[key])
                todo += self._downstream[key]
        return sorted(blocked, key=lambda other: self._order[other.id])

    def _push(self, key: str) -> None:
        node = self._nodes[key]
        heapq.heappush(self._ready[node.name, node.step, node.resources],
                       (-self._priority[key], self._order[key], key))

    def _longest_paths(self) -> dict[str, int]:
        """Nodes on the longest chain from each node to the end; the plan's order puts dependants later."""
        lengths: dict[str, int] = {}
        for key in reversed(self._nodes):
            lengths[key] = 1 + max((lengths[other] for other in self._downstream[key]), default=0)
        return lengths
