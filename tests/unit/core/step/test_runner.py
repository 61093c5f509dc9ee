"""What a step leaves in its directory when it ends, fails, or is someone else's."""

import json
import shutil
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from argosy.core.config.schema import Config
from argosy.core.errors import InputError, StepError
from argosy.core.nodes.bad import NODE_NAME, bad_nodes
from argosy.core.step.contract import Step, StepContext
from argosy.core.step.process import Outcome
from argosy.core.step.runner import Item, run_item
from argosy.core.store.files import read_json
from argosy.core.store.lease import LEASE, Lease, LeaseLost
from argosy.core.store.provenance import Identities
from argosy.core.store.step_files import ERROR, LOG, NODE, OUTPUTS, RUN, STATE, TRACKING, read_outputs
from argosy.core.tracking.tracker import Tracker
from steps.noop import STEP, NoopConfig, NoopOutputs
from workflows.graph import Graph, Node
from workflows.plan import state_of

Run = Callable[[NoopConfig, StepContext], Config]


def run(out: Path, step: Step[NoopConfig] = STEP, **config: object) -> Outcome:
    return run_item(step, Item(NoopConfig.model_validate(config), out))


def stepping(function: Run) -> Step[NoopConfig]:
    return replace(STEP, run=function)


def record(path: Path) -> dict[str, object]:
    return dict(json.loads(path.read_text()))


def test_done_writes_outputs_and_runs_once(tmp_path: Path) -> None:
    assert run(tmp_path, size=9) == Outcome(0, "done", ran=True)
    before = (tmp_path / OUTPUTS).read_bytes()
    assert run(tmp_path, size=9) == Outcome(0, "already done")
    params = next(line["values"] for line in map(json.loads, spool(tmp_path)) if line["kind"] == "params")
    assert params["size"] == "9"
    assert run(tmp_path / "elsewhere", size=9).ran
    assert (tmp_path / OUTPUTS).read_bytes() == before == (tmp_path / "elsewhere" / OUTPUTS).read_bytes()
    assert read_outputs(tmp_path)["size"] == 9
    assert record(tmp_path / RUN)["attempts"] == 1
    assert record(tmp_path / RUN)["exit"] == 0
    assert not (tmp_path / LEASE).exists()


def test_a_step_run_by_hand_has_the_digest_of_the_graph(tmp_path: Path) -> None:
    (tmp_path / "in.txt").write_text("text")
    config = NoopConfig(inputs=(str(tmp_path / "in.txt"),))
    first = Node("noop", "noop", config)
    graph = Graph([first, second := Node("after", "noop", NoopConfig(), inputs={"after": [first]})])
    run_item(STEP, Item(config, tmp_path / "a"))
    run_item(STEP, Item(NoopConfig(after=(str(tmp_path / "a"),)), tmp_path / "b", {"node": "after"}))
    assert record(tmp_path / "a" / OUTPUTS)["made_from"] == graph.made_from(first)
    assert record(tmp_path / "b" / OUTPUTS)["made_from"] == graph.made_from(second)


@pytest.mark.parametrize(("fail", "code"), [("error", 1), ("input", 2), ("crash", 1)])
def test_a_failure_is_recorded_and_the_next_attempt_clears_it(tmp_path: Path, fail: str, code: int) -> None:
    outcome = run(tmp_path, fail=fail)
    assert outcome.code == code
    assert record(tmp_path / ERROR)["exit_code"] == code
    assert record(tmp_path / ERROR)["message"] == outcome.message
    assert not (tmp_path / OUTPUTS).exists()
    assert ("Traceback" in (tmp_path / LOG).read_text()) == (fail == "crash")
    assert run(tmp_path).code == 0
    statuses = [line["value"] for line in map(json.loads, spool(tmp_path)) if line["kind"] == "status"]
    assert statuses == ["RUNNING", "FAILED", "RUNNING", "FINISHED"]
    assert not (tmp_path / ERROR).exists()
    assert record(tmp_path / RUN)["attempts"] == 2


@pytest.mark.parametrize("fail", ["", "error"])
def test_another_configs_directory_is_refused_also_where_it_did_not_finish(tmp_path: Path, fail: str) -> None:
    run(tmp_path, size=1, fail=fail)
    outcome = run(tmp_path, size=2)
    assert outcome.code == 2
    assert "noop.size 1 -> 2" in outcome.message
    assert record(tmp_path / NODE)["config"] == NoopConfig(size=1).identity()


def test_a_gpu_that_fails_a_lone_process_has_its_node_on_record(tmp_path: Path, monkeypatch: pytest.MonkeyPatch
                                                                ) -> None:
    def broken(config: NoopConfig, context: StepContext) -> Config:
        raise RuntimeError("CUDA error: uncorrectable ECC error encountered")

    monkeypatch.setenv(NODE_NAME, "gpu-3")
    assert run(tmp_path / "evaluate-0", stepping(broken)).code == 1
    assert [each["node"] for each in bad_nodes(tmp_path)] == ["gpu-3"]
    assert read_json(tmp_path / "evaluate-0" / ERROR)["nodes"] == ["gpu-3"]


def test_an_attempt_that_made_nothing_is_in_nobodys_way(tmp_path: Path) -> None:
    def refuses(config: NoopConfig, context: StepContext) -> Config:
        raise InputError("the config is wrong")

    assert run(tmp_path, stepping(refuses), size=1).code == 2
    lease = Lease(tmp_path)
    assert lease.try_acquire() is None  # another process has just begun
    assert "noop.size 1 -> 2" in run(tmp_path, size=2).message
    lease.release()
    assert run(tmp_path, size=2).code == 0
    assert read_outputs(tmp_path)["size"] == 2
    digests = [line["digest"] for line in map(json.loads, spool(tmp_path)) if line["kind"] == "header"]
    assert digests == [record(tmp_path / NODE)["digest"]]


def spool(out: Path) -> list[str]:
    return (out / TRACKING / "spool.jsonl").read_text().splitlines()


@pytest.mark.parametrize("when", ["before", "while", "long before the end"])
def test_an_input_that_changes_after_the_plan_is_no_result(tmp_path: Path, when: str,
                                                           monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "in.txt"
    file.write_text("old")
    config = NoopConfig(inputs=(str(file),))
    node = {"node": "noop", "external": Identities().of_config(config, "noop"), "upstream": {}}

    def reads(config: NoopConfig, context: StepContext) -> Config:
        file.write_text("new")
        if when == "long before the end":
            context.progress.update(1, 100)
            pytest.fail("it goes on")
        return STEP.run(config, context)

    monkeypatch.setattr("argosy.core.step.contract._CHECK_S", 0.0)
    if when == "before":
        file.write_text("new")
    outcome = run_item(STEP if when == "before" else stepping(reads), Item(config, tmp_path / "out", node))
    assert outcome.code == 2
    assert outcome.message.startswith("files of noop.inputs have changed since this step was planned")
    assert not (tmp_path / "out" / OUTPUTS).exists()


def test_a_step_reads_whole_results_only(tmp_path: Path) -> None:
    def writes(config: NoopConfig, context: StepContext) -> Config:
        for name in ("documents/en.jsonl", "checkpoints/p50/config.json"):
            (context.out / name).parent.mkdir(parents=True)
            (context.out / name).write_text("12345")
        return STEP.run(config, context)

    up = tmp_path / "up"
    assert run(up, stepping(writes), size=9).code == 0
    assert record(up / OUTPUTS)["files"] == {"checkpoints/p50/config.json": 5, "data.bin": 9, "documents/en.jsonl": 5}
    shutil.rmtree(up / "checkpoints/p50")  # for its space
    assert run(tmp_path / "down", after=[str(up)]).code == 0
    (up / "documents/en.jsonl").write_text("123")
    cut = run(tmp_path / "again", after=[str(up)], index=1)
    (up / "documents/en.jsonl").unlink()
    gone = run(tmp_path / "more", after=[str(up)], index=2)
    for outcome, now in ((cut, "has 3 bytes"), (gone, "is missing")):
        assert outcome.code == 2
        assert f"after: {up}/documents/en.jsonl {now}, and had 5 when its step ended" in outcome.message


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of 1 MiB."""
    mount = ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", tmp_path]
    if subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("may not mount a small disk")
    yield tmp_path
    subprocess.run(["umount", "-l", tmp_path], check=True)


def fill(config: NoopConfig, context: StepContext) -> Config:
    (context.out / "data.bin").write_bytes(bytes(2**21))
    raise AssertionError


def wrapped(config: NoopConfig, context: StepContext) -> Config:
    raise RuntimeError("Error while serializing: I/O error: No space left on device (os error 28)")


@pytest.mark.parametrize("function", [fill, wrapped])
def test_a_full_disk_is_named_and_so_recorded(small_disk: Path, function: Run) -> None:
    outcome = run(small_disk, stepping(function))
    assert outcome.code == 1
    assert f"no space left at {small_disk}" in outcome.message
    assert state_of(str(small_disk)).reason == f"failed before: {outcome.message}"
    assert record(small_disk / RUN)["exit"] == 1
    for path in small_disk.glob("data.bin*"):
        path.unlink()
    assert run(small_disk).code == 0


@pytest.mark.parametrize("fail", ["", "error"])
def test_a_step_that_lost_its_lease_writes_no_more_records(tmp_path: Path, fail: str) -> None:
    def taken_over(config: NoopConfig, context: StepContext) -> Config:
        lease = context.out / LEASE
        lease.write_text(json.dumps(json.loads(lease.read_text()) | {"token": "theirs"}))
        return STEP.run(config, context)

    with pytest.raises(LeaseLost, match="taken over"):
        run(tmp_path, stepping(taken_over), fail=fail)
    assert not (tmp_path / OUTPUTS).exists()
    assert not (tmp_path / ERROR).exists()
    assert record(tmp_path / RUN)["exit"] is None


def test_without_waiting_a_held_directory_is_left_alone(tmp_path: Path) -> None:
    held = Lease(tmp_path)
    held.try_acquire()
    assert run_item(STEP, Item(NoopConfig(), tmp_path), wait=False).code is None
    assert not (tmp_path / NODE).exists()
    held.release()


class Parts(NoopOutputs):
    """Outputs that name what may go better another time."""

    again: tuple[str, ...] = ()


def test_what_failed_in_part_is_run_again_and_so_is_what_reads_it_but_not_for_ever(tmp_path: Path) -> None:
    """The next run tries it again; once it goes well, or after three runs, both are done."""
    network = {"up": False}

    def tries(config: NoopConfig, context: StepContext) -> Config:
        made = STEP.run(config, context)
        return Parts(**made.model_dump(), again=() if network["up"] else ("data",))

    def run_both(name: str) -> tuple[str, str]:
        first = run(tmp_path / f"{name}-a", stepping(tries))
        return first.message, run(tmp_path / f"{name}-b", after=(str(tmp_path / f"{name}-a"),)).message

    def states(name: str) -> list[str]:
        return [found.name if (found := state_of(str(tmp_path / f"{name}-{part}"))) else "" for part in "ab"]

    assert run_both("x") == ("done", "done")
    assert states("x") == ["pending", "pending"]
    assert record(tmp_path / "x-b" / OUTPUTS)["again"] == ["data"]
    assert state_of(str(tmp_path / "x-a")).reason == "done, but failed in part: data; retried"
    network["up"] = True
    assert run_both("x") == ("done", "done")
    assert states("x") == ["done", "done"]
    assert "again" not in record(tmp_path / "x-b" / OUTPUTS)
    assert run_both("x") == ("already done", "already done")
    network["up"] = False
    assert [run_both("y") for _ in range(3)] == [("done", "done")] * 3
    assert states("y") == ["done", "done"]
    assert run_both("y") == ("already done", "already done")


def fetches(config: NoopConfig, context: StepContext) -> Config:
    """A step of which a part fails, and which keeps what it has computed."""
    (context.out / STATE).mkdir(exist_ok=True)
    return Parts(**STEP.run(config, context).model_dump(), again=("data",))


def fails(config: NoopConfig, context: StepContext) -> Config:
    raise StepError("the network is down")


def test_a_run_that_fails_while_it_tries_again_leaves_what_was_done_and_says_why(tmp_path: Path) -> None:
    assert run(tmp_path, stepping(fetches)).code == 0
    before = (tmp_path / OUTPUTS).read_bytes()
    outcome = run(tmp_path, stepping(fails))
    assert (outcome.code, outcome.ran) == (0, True)
    assert outcome.message == "already done; retrying its failed parts failed: the network is down"
    assert outcome.message in (tmp_path / LOG).read_text()
    assert (tmp_path / OUTPUTS).read_bytes() == before
    assert Tracker(tmp_path / TRACKING).last_status == "FINISHED"
    assert state_of(str(tmp_path)).reason == "done, but failed in part: data; retried (last time: the network is down)"
    assert run(tmp_path, stepping(fails)).code == 0  # the third that ended: it is left as it is
    assert "again" not in record(tmp_path / OUTPUTS)
    assert read_outputs(tmp_path)["again"] == []
    assert not (tmp_path / STATE).exists()
    assert run(tmp_path, stepping(fails)) == Outcome(0, "already done")


def test_a_result_that_was_cut_is_not_done_and_is_made_anew(tmp_path: Path) -> None:
    out = tmp_path / "x"
    run(out, size=100)
    [result] = [path for path in out.iterdir() if path.name in read_json(out / OUTPUTS)["files"]]
    whole = result.read_bytes()
    result.write_bytes(whole[:40])
    with pytest.warns(UserWarning, match="has 40 bytes, and had 100 when its step ended: taken as not done"):
        state = state_of(str(out))
    assert state is not None
    assert (state.name, state.reason) == (
        "pending", f"{result} has 40 bytes, and had 100 when its step ended: the step runs again")
    with pytest.warns(UserWarning, match="taken as not done"):
        assert run(out, size=100).ran
    assert (result.read_bytes(), state_of(str(out))) == (whole, ("done", "done"))
