"""The local backend: what it runs, what it leaves out, and that nothing kills a run for good."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from unittest.mock import Mock

import pytest

from argosy.core.store.goodput import attempts_of
from argosy.core.store.step_files import LOG, OUTPUTS, RUN
from steps.noop import NoopConfig
from tests.processes import alive, until
from workflows.graph import Graph, Node, Resources
from workflows.local.runner import run_plan
from workflows.local.scheduler import Budget
from workflows.local.view import RunObserver, RunResult
from workflows.plan import Plan, plan

ROOT = Path(__file__).resolve().parents[3]
RUNNER = """
import sys
from pathlib import Path
from workflows.local.runner import run_plan
from workflows.local.scheduler import Budget
from workflows.plan import Plan
plan = Plan.model_validate_json(Path(sys.argv[1]).read_text())
sys.exit(run_plan(plan, budget=Budget(2, 4), grace_s=float(sys.argv[2])).exit_code)
"""
SIZE = 5000


def fan(seconds: float = 0.0, fail: dict[int, str] | None = None, parts: int = 3, batch: int = 1) -> list[Node]:
    """first -> part/0, part/1, ... -> last; `fail` says how a part fails."""
    fails = fail or {}
    small = Resources(1, 0.1)
    first = Node("first", "noop", NoopConfig(size=SIZE), resources=small)
    middle = [
        Node("part", "noop", noop(i, seconds, fails.get(i, "")), inputs={"after": [first]}, part=str(i), batch=batch,
             resources=small)
        for i in range(parts)]
    return [first, *middle, Node("last", "noop", NoopConfig(), inputs={"after": middle}, resources=small)]


def noop(index: int, seconds: float, fail: str) -> NoopConfig:
    return NoopConfig.model_validate({"index": index, "size": SIZE, "seconds": seconds, "fail": fail})


def run(nodes: list[Node], store: Path, *observers: RunObserver) -> RunResult:
    return run_plan(plan(nodes, store), budget=Budget(2, 4), observers=observers)


def ends_as_untouched(nodes: list[Node], root: Path) -> None:
    """Run again, `s` has the bytes of a store that was left alone: data and outputs, not times and logs."""
    graph, stores = Graph(nodes), (root / "s", root / "untouched")
    assert [run(nodes, store).exit_code for store in stores] == [0, 0]
    ours, theirs = ([Path(graph.directory(node, str(store)), name).read_bytes()
                     for node in nodes for name in ("data.bin", OUTPUTS)] for store in stores)
    assert ours == theirs


@contextmanager
def runner(nodes: list[Node], store: Path, grace_s: float = 10) -> Iterator[tuple[subprocess.Popen[str], Plan]]:
    """A runner in a process of its own, which ends with the test."""
    store.mkdir(exist_ok=True)
    planned = plan(nodes, store)
    path = store.parent / f"plan-{time.monotonic_ns()}.json"
    path.write_text(planned.model_dump_json())
    process = subprocess.Popen([sys.executable, "-c", RUNNER, str(path), str(grace_s)], cwd=ROOT, text=True,
                               stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    try:
        with process:
            yield process, planned
    finally:
        process.kill()


def pids(planned: Plan, store: Path) -> list[int]:
    """Processes of steps that are in the middle of their work."""
    found = [Path(node.dir, RUN) for node in planned.nodes if node.id.startswith("part")
             and Path(node.dir, "progress.json").exists()]
    return [run["pid"] for run in (json.loads(path.read_text()) for path in found) if run["exit"] is None]


def test_a_failing_node_stops_only_what_depends_on_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    result = run(fan(fail={1: "crash"}), tmp_path)
    assert {key: found.status for key, found in result.results.items()} == {
        "first": "ran", "part/0": "ran", "part/1": "failed", "part/2": "ran", "last": "blocked"}
    assert result.exit_code == 1
    text = capsys.readouterr().out
    assert text.count("part/1 failed: ValueError: crashed on request") == 2  # when it happens, and at the end
    assert text.count("crashed on request") == 3  # and in the traceback: the end of its log, which is also named
    assert str(Path(result.having("failed")[0].node.dir, LOG)) in text
    assert run(fan(fail={1: "input"}), tmp_path).exit_code == 2
    assert [found.node.id for found in run(fan(), tmp_path).having("ran")] == ["part/1", "last"]


def test_parts_that_share_a_process_have_their_own_logs_and_results(tmp_path: Path) -> None:
    result = run(fan(fail={1: "error"}, parts=4, batch=4), tmp_path)
    assert [result.results[f"part/{i}"].status for i in range(4)] == ["ran", "failed", "ran", "ran"]
    nodes = {node.id: Path(node.dir) for node in plan(fan(parts=4), tmp_path).nodes}
    processes = {json.loads((nodes[f"part/{i}"] / RUN).read_text())["pid"] for i in range(4)}
    assert len(processes) == 2  # as many as there are cores
    assert "failed on request" in (nodes["part/1"] / LOG).read_text()
    assert "failed on request" not in (nodes["part/2"] / LOG).read_text()


def test_a_step_killed_in_the_middle_fails_alone_and_continues(tmp_path: Path) -> None:
    nodes = fan(seconds=1.5, parts=4, batch=4)
    with runner(nodes, tmp_path / "s") as (process, planned):
        until(lambda: len(pids(planned, tmp_path)) == 2)
        os.kill(pids(planned, tmp_path)[0], signal.SIGKILL)
        text = process.stdout.read()
        assert process.wait() == 1
    assert "killed by SIGKILL" in text
    assert "4 ran, 1 failed, 1 blocked" in text  # the other part of its process ran in a new one
    ends = [attempts_of(node.dir)[-1] for node in planned.nodes if node.name == "part"]
    assert sorted((end["cause"], end["memory_gb"]) for end in ends) == [("", 0.1)] * 3 + [("oom", 0.1)]
    ends_as_untouched(fan(parts=4), tmp_path)


def test_a_killed_runner_takes_its_steps_with_it_and_the_next_one_continues(tmp_path: Path) -> None:
    nodes = fan(seconds=30)
    with runner(nodes, tmp_path / "s") as (process, planned):
        until(lambda: len(pids(planned, tmp_path)) == 2)
        steps = pids(planned, tmp_path)
        process.kill()
        until(lambda: not any(map(alive, steps)))
    begun = [Path(node.dir, "data.bin") for node in planned.nodes]
    assert any(0 < path.stat().st_size < SIZE for path in begun if path.exists())
    ends_as_untouched(fan(), tmp_path)


def test_a_run_whose_budget_is_spent_stops_says_so_and_continues(tmp_path: Path,
                                                                capsys: pytest.CaptureFixture[str]) -> None:
    planned = plan(fan(seconds=30), tmp_path / "s")
    result = run_plan(planned, budget=Budget(2, 4), spent=lambda: "it is spent" if pids(planned, tmp_path) else "")
    assert {found.node.id for found in result.having("stopped")} == {"part/0", "part/1", "part/2"}
    assert result.exit_code == 128 + signal.SIGTERM
    assert capsys.readouterr().out.endswith("\nit is spent\n")
    assert {attempts_of(node.dir)[-1]["cause"] for node in planned.nodes if Path(node.dir, RUN).exists()} == {
        "", "preemption"}
    ends_as_untouched(fan(), tmp_path)


@pytest.mark.parametrize(("number", "frozen"), [(signal.SIGTERM, True), (signal.SIGINT, False)])
def test_a_stopped_runner_leaves_no_process_and_continues(tmp_path: Path, number: signal.Signals, frozen: bool) -> None:
    """A step that does not react is killed after the grace."""
    nodes = fan(seconds=30)
    with runner(nodes, tmp_path / "s", grace_s=0.2 if frozen else 10) as (process, planned):
        until(lambda: len(pids(planned, tmp_path)) == 2)
        steps = pids(planned, tmp_path)
        if frozen:
            os.kill(steps[0], signal.SIGSTOP)
        process.send_signal(number)
        assert process.wait(30) == 128 + number
        assert not any(map(alive, steps))
    reason = {node.id: node.reason for node in plan(nodes, tmp_path / "s").nodes}["part/0"]
    assert "in attempt 1; continues from there" in reason
    assert run(fan(), tmp_path / "s").exit_code == 0


def test_two_runners_on_one_store_run_each_node_once(tmp_path: Path) -> None:
    nodes = fan(seconds=0.5, parts=4, batch=2)
    with runner(nodes, tmp_path / "s") as (one, planned), runner(nodes, tmp_path / "s") as (two, _):
        texts = [process.communicate(timeout=60)[0] for process in (one, two)]
        assert [one.returncode, two.returncode] == [0, 0], texts
    assert {json.loads(Path(node.dir, RUN).read_text())["attempts"] for node in planned.nodes} == {1}


def test_observers_are_told_and_one_that_fails_stops_nothing(tmp_path: Path) -> None:
    good, bad = Mock(spec=RunObserver), Mock(spec=RunObserver)
    bad.on_start.side_effect = RuntimeError("cannot look on")
    with pytest.warns(UserWarning, match=r"Mock\.on_start failed"):
        result = run(fan(parts=1), tmp_path, bad, good)
    assert result.exit_code == 0
    order = [f"on_{hook}" for hook in ("plan", *["start", "finish"] * 3, "end")]
    told = [[name for name, *_ in each.method_calls if name != "on_tick"] for each in (good, bad)]
    assert told == [order, order[:2]]
    assert [call.args[0].id for call in good.on_start.mock_calls] == ["first", "part/0", "last"]
    assert [call.args[0].node.id for call in good.on_finish.mock_calls] == ["first", "part/0", "last"]


def test_arguments_too_long_for_the_system_go_another_way(tmp_path: Path) -> None:
    parts = [Node("part", "noop", NoopConfig(index=i), part="x" * 150 + str(i), batch=300) for i in range(300)]
    last = Node("last", "noop", NoopConfig(), inputs={"after": parts})
    nodes = [*parts, last]
    longest = max(len(word) for word in plan(nodes, tmp_path / ("y" * 200)).nodes[-1].command)
    assert longest > 100_000
    assert run(nodes, tmp_path / ("y" * 200)).exit_code == 0


def test_steps_at_the_same_time_see_gpus_of_their_own(tmp_path: Path) -> None:
    nodes = [Node("part", "noop", noop(i, 1.5, ""), part=str(i), resources=Resources(1, 0.1, gpus=1)) for i in range(2)]
    planned, seen, observer = plan(nodes, tmp_path), set[str](), Mock(spec=RunObserver)

    def look() -> None:
        for pid in pids(planned, tmp_path):
            variables = Path(f"/proc/{pid}/environ").read_text().split("\0")
            seen.update(each for each in variables if each.startswith("CUDA_VISIBLE_DEVICES="))

    observer.on_tick.side_effect = look
    assert run_plan(planned, budget=Budget(2, 4, gpus=("5", "6")), observers=[observer]).exit_code == 0
    assert seen == {"CUDA_VISIBLE_DEVICES=5", "CUDA_VISIBLE_DEVICES=6"}
