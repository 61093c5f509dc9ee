"""Order, budget and batches, without processes."""

from __future__ import annotations

from pathlib import Path

from steps.noop import NoopConfig
from workflows.graph import Node, Resources
from workflows.local.budget import Budget
from workflows.local.scheduler import Scheduler
from workflows.plan import plan


def node(name: str, *after: Node, cores: int = 1, part: str = "", batch: int = 1, memory_gb: float = 0.1) -> Node:
    inputs = {"after": after} if after else {}
    return Node(name, "noop", NoopConfig(), inputs=inputs, part=part, batch=batch,
                resources=Resources(cores, memory_gb))


def scheduler(nodes: list[Node], store: Path, cores: int = 2, memory_gb: float = 8) -> Scheduler:
    return Scheduler(plan(nodes, store), Budget(cores, memory_gb))


def started(s: Scheduler) -> list[str]:
    found = []
    while nodes := s.start():
        found.append(" ".join(n.id for n in nodes))
    return found


def test_critical_path_first_and_no_more_than_fits(tmp_path: Path) -> None:
    a = node("a")
    chain = node("chain")
    nodes = [a, node("b"), chain, node("end", chain)]
    s = scheduler(nodes, tmp_path)
    assert started(s) == ["chain", "a"]
    s.ended(Resources(1, 0.1))
    assert started(s) == ["b"]


def test_a_node_for_the_whole_machine_is_not_starved_by_small_ones(tmp_path: Path) -> None:
    big = node("big", cores=2)
    first = node("first")
    nodes = [first, node("after_first", first), node("second", first), big, node("x", big), node("y", big)]
    s = scheduler(nodes, tmp_path)
    begun = s.start()
    assert [n.id for n in begun] == ["first"]
    assert started(s) == []  # big is next and waits for both cores
    s.succeeded(begun[0])
    s.ended(Resources(1, 0.1))
    assert started(s) == ["big"]


def test_what_asks_for_more_than_the_machine_has_runs_alone(tmp_path: Path) -> None:
    s = scheduler([node("huge", cores=64, memory_gb=999), node("small")], tmp_path)
    assert started(s) == ["huge"]


def test_memory_counts(tmp_path: Path) -> None:
    s = scheduler([node("a", memory_gb=5), node("b", memory_gb=5)], tmp_path, memory_gb=8)
    assert started(s) == ["a"]


def test_parts_are_batched_and_shared_among_free_cores(tmp_path: Path) -> None:
    parts = [node("p", part=str(i), batch=3) for i in range(4)]
    assert started(scheduler(parts, tmp_path)) == ["p/0 p/1", "p/2 p/3"]
    assert started(scheduler(parts, tmp_path, cores=1)) == ["p/0 p/1 p/2"]


def test_a_failure_blocks_what_depends_on_it_and_nothing_else(tmp_path: Path) -> None:
    a, b = node("a"), node("b")
    c = node("c", a)
    s = scheduler([a, b, c, node("d", c), node("e", b)], tmp_path)
    begun = {n.id: n for _ in range(2) for n in s.start()}
    assert [n.id for n in s.failed(begun["a"])] == ["c", "d"]
    s.succeeded(begun["b"])
    s.ended(Resources(1, 0.1))
    assert started(s) == ["e"]


def test_a_failure_of_two_causes_is_reported_once(tmp_path: Path) -> None:
    a, b = node("a"), node("b")
    s = scheduler([a, b, node("c", a, b)], tmp_path)
    begun = [n for _ in range(2) for n in s.start()]
    assert [len(s.failed(n)) for n in begun] == [1, 0]
