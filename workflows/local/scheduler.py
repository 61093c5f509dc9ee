"""The next node to start: a budget of cores, memory and GPUs, and pure bookkeeping without processes."""

import heapq
import math
import os
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from argosy.core.errors import InputError
from argosy.core.step.machine import usable_cores, usable_gpus, usable_memory_gb
from workflows.graph import Resources, definition
from workflows.plan import Plan, PlannedNode

_MEMORY_SHARE = 0.8  # of the machine: the rest is for the system and the page cache
_EVERY_CORE = ("train_tokenizer", "tokenize")  # steps that use all cores, where their resources say nothing


@dataclass(frozen=True)
class Share:
    """The part of the machine that one step's process holds; gpus None: those of the environment."""

    cores: int
    memory_gb: float
    gpus: tuple[str, ...] | None = None


class Budget:
    """Cores, memory and GPUs that are free now; a node that asks for more cores or memory than there is runs alone.

    Defaults: all cores and 80 % of the memory that this process may use (affinity and cgroup limits count), and the
    GPUs of CUDA_VISIBLE_DEVICES, else of the machine."""

    def __init__(self, cores: int = 0, memory_gb: float = 0.0, gpus: Sequence[str] | None = None) -> None:
        self._gpus = list(usable_gpus() if gpus is None else gpus)
        self._cores = cores or usable_cores()
        self._memory_gb = memory_gb or _MEMORY_SHARE * usable_memory_gb()
        self._all = Share(self._cores, self._memory_gb, tuple(self._gpus))

    def check(self, nodes: Sequence[PlannedNode]) -> None:
        """Raise InputError where a node asks for more GPUs than there are, or has more processes than GPUs."""
        there = len(self._all.gpus or ())
        machine = f"this machine has {there} (by CUDA_VISIBLE_DEVICES, else /dev)"
        for node in nodes:
            asked, processes, field = node.resources.all_gpus, node.resources.processes, f"resources.{node.name}.gpus"
            field += f" times {node.resources.nodes} nodes" if node.resources.nodes > 1 else ""
            if (asked or 0) > there:
                raise InputError(f"{field} is {asked}, and for {node.id} {machine}: lower it, or run where there are "
                                 "as many")
            own = (there if self._wants_gpus(node) else 0) if asked is None else asked
            if 0 < own < processes:
                raise InputError(f"{node.name}.processes is {processes}, each needs its own GPU; for {node.id} there "
                                 f"are {own} ({machine}): lower it, or set {field}=0 to train on the CPU")

    def slots(self, node: PlannedNode) -> int:
        """Count the processes of `node` that could start now."""
        need = self._need(node)
        slots = min(self._cores // need.cores, (self._memory_gb + 1e-6) // max(need.memory_gb, 1e-3))
        return int(min(slots, len(self._gpus) // len(need.gpus)) if need.gpus else slots)

    def lacks_gpus(self, node: PlannedNode, *, none_free: bool) -> bool:
        """Tell whether too few GPUs are free for `node`; none_free: those that are wait for another node."""
        return len(self._need(node).gpus or ()) > (0 if none_free else len(self._gpus))

    def take(self, node: PlannedNode) -> Share:
        """Reserve what `node` needs; the GPUs are its own until it gives them back."""
        share = self._need(node)
        self._cores -= share.cores
        self._memory_gb -= share.memory_gb
        if share.gpus:
            self._gpus = [each for each in self._gpus if each not in share.gpus]
        return share

    def give_back(self, share: Share) -> None:
        self._cores += share.cores
        self._memory_gb += share.memory_gb
        self._gpus = [each for each in self._all.gpus or () if each in (*self._gpus, *(share.gpus or ()))]

    def _need(self, node: PlannedNode) -> Share:
        """Return the share that `node` would get now; with too few GPUs free, those that it waits for are in it."""
        need = node.resources
        cores = max(1, min(need.cores, self._all.cores))
        if node.step in _EVERY_CORE and need.cores == 1:
            cores = self._all.cores
        return Share(cores, min(need.memory_gb, self._all.memory_gb), self._devices(node))

    def _devices(self, node: PlannedNode) -> tuple[str, ...] | None:
        there = self._all.gpus or ()
        wanted = node.resources.all_gpus
        if wanted is None:
            if not self._wants_gpus(node):
                return None
            wanted = min(node.resources.processes, len(there))
        first_free = [*self._gpus, *(each for each in there if each not in self._gpus)]
        return tuple(first_free[:wanted])

    def _wants_gpus(self, node: PlannedNode) -> bool:
        return bool(self._all.gpus) and definition(node.step).needs == "train"


Group = tuple[str, str, Resources]  # name, step, resources: what may share a process


class Scheduler:
    """Ready nodes by priority, within a budget.

    Priority is the length of the longest chain of nodes that waits for a node (critical path first). The first in line
    keeps its place: nothing behind it starts while it does not fit, else a node that needs the whole machine would wait
    for ever. Only nodes without GPUs pass one that waits for GPUs: when these are free, it is first in line again."""

    def __init__(self, plan: Plan, budget: Budget) -> None:
        self._budget = budget
        self._nodes = {node.id: node for node in plan.to_run}
        self._order = {key: index for index, key in enumerate(self._nodes)}
        self._waits_for = {key: {u for u in node.upstream if u in self._nodes} for key, node in self._nodes.items()}
        self._downstream: dict[str, list[str]] = defaultdict(list)
        for key, upstream in self._waits_for.items():
            for other in upstream:
                self._downstream[other].append(key)
        self._priority: dict[str, int] = {}
        for key in reversed(self._nodes):
            self._priority[key] = 1 + max((self._priority[other] for other in self._downstream[key]), default=0)
        self._early = {key for key, node in self._nodes.items() if node.early}
        self._ready: dict[Group, list[tuple[int, int, str]]] = defaultdict(list)
        self._open = set(self._nodes)  # neither ended nor blocked
        for key, upstream in self._waits_for.items():
            if not upstream:
                self._push(key)

    @property
    def unfinished(self) -> list[PlannedNode]:
        """List the nodes that have neither ended nor been blocked."""
        return [self._nodes[key] for key in self._nodes if key in self._open]

    def start(self) -> tuple[list[PlannedNode], Share] | None:
        """Pick the nodes to start now in one process, and their share, reserved; None if nothing fits or is ready."""
        waiting = False
        for group, heap in sorted(self._ready.items(), key=lambda item: item[1][0]):
            first = self._nodes[heap[0][-1]]
            waiting = waiting or self._budget.lacks_gpus(first, none_free=False)
            if not self._budget.lacks_gpus(first, none_free=waiting):
                return self._start(group, first)
        return None

    def _start(self, group: Group, first: PlannedNode) -> tuple[list[PlannedNode], Share] | None:
        heap = self._ready[group]
        slots = self._budget.slots(first)
        if slots == 0:
            return None
        share = math.ceil(len(heap) / slots)  # do not put all parts into one process while others could share them
        count = min(first.batch, share)
        keys = [heapq.heappop(heap)[-1] for _ in range(max(1, count))]
        if not heap:
            del self._ready[group]
        return [self._nodes[key] for key in keys], self._budget.take(first)

    def ended(self, share: Share) -> None:
        """Take note that a process ended: its share is free."""
        self._budget.give_back(share)

    def requeue(self, nodes: Iterable[PlannedNode]) -> None:
        """Make nodes ready again whose process died before it came to them."""
        for node in nodes:
            self._push(node.id)

    def succeeded(self, node: PlannedNode) -> None:
        """Take note that `node` is done; nodes that waited for it alone are ready."""
        self._open.discard(node.id)
        for key in self._downstream[node.id]:
            self._waits_for[key].discard(node.id)
            if not self._waits_for[key] and key in self._open:
                self._push(key)

    def release(self) -> bool:
        """Make nodes ready whose checkpoint is there while its stage still trains; tells whether there are some."""
        found = [key for key in self._early if key in self._open and os.path.isdir(self._nodes[key].early)]
        for key in found:
            training = next((other for other in self._waits_for[key]
                             if self._nodes[key].early.startswith(f"{self._nodes[other].dir}/")), "")
            self._early.remove(key)
            if training:  # else it has ended
                self._waits_for[key].remove(training)
                self._downstream[training].remove(key)
                if not self._waits_for[key]:
                    self._push(key)
        return bool(found)

    def failed(self, node: PlannedNode) -> list[PlannedNode]:
        """Take note that `node` failed; returns the nodes that depend on it and cannot run."""
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
        heapq.heappush(self._ready[node.name, node.step, node.resources], (-self._priority[key], self._order[key], key))
