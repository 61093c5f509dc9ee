"""What `watch` and `status` say of workflows, look by look."""

import base64
import gzip
import json
from typing import Any

import pytest

from argosy.core.errors import InputError
from tests.argo_api import Api, Pod, workflow
from tests.command_line import Argosy
from workflows.argo.client.api import ApiError, ArgoClient, connect
from workflows.argo.client.view import view
from workflows.argo.client.watch import Lines, summary, watch
from workflows.cli.status import describe_workflow

PLANNED = Pod(start=0, end=4)
AT = "2026-01-01T00:00:30Z"
WRONG = "main: Error (exit code 2): data: data.inputs: absent.txt does not exist"


def lines(*looks: dict[str, Any], every_s: float = 2.0) -> list[str]:
    found, told = Lines(), []
    for number, look in enumerate(looks):
        told += found.of(view(look), number * every_s)
    return told


def test_a_workflow_from_its_start_to_its_end() -> None:
    started = {"data": {"data-1": (Pod("Running"),)}}
    one = {"data": {"data-1": (Pod(end=14),)}, "clean": {"clean-2": (Pod("Pending", message="Unschedulable: no cpu"),)}}
    both = {**one, "clean": {"clean-2": (Pod(start=20, end=50),)}}
    assert lines(
        {"metadata": {"name": "lifecycle-1"}, "spec": {}}, workflow(plan=Pod("Running", start=0)),
        workflow(plan=PLANNED, batches=started, asked=2),
        *[workflow(plan=PLANNED, batches=one, asked=2)] * 2,
        workflow(plan=PLANNED, batches=both, asked=2, finish=Pod("Running", start=50)),
        workflow(phase="Succeeded", plan=PLANNED, batches=both, asked=2, finish=Pod(start=50, end=52)),
    ) == [
        "plan started", "2 of 9 nodes to run, store /store/runs; 2 pods", "plan done in 4.0 s",
        "data started", "[1/2] data done in 4.0 s",
        "clean waits: Unschedulable: no cpu", "clean started", "[2/2] clean done in 30.0 s",
        "finish started", "finish done in 2.0 s"]  # fmt: skip


def test_an_attempt_that_failed_is_told_with_its_cause() -> None:
    killed = Pod("Failed", code=137, message="main: OOMKilled (exit code 137)")
    told = lines(workflow(plan=PLANNED, batches={"data": {"data-1": (Pod("Running"),)}}),
                 workflow(plan=PLANNED, batches={"data": {"data-1": (killed, Pod("Running", start=30))}}),
                 workflow(plan=PLANNED, batches={"data": {"data-1": (killed, Pod(start=30, end=40))}}))
    assert told[-2:] == ["data is retried, attempt 2: main: OOMKilled (exit code 137)", "[1/1] data done in 30.0 s"]


def test_the_report_and_the_exit_handler_are_not_counted() -> None:
    before = workflow(plan=PLANNED, batches={"data": {"data-1": (Pod(),)}}, finish=Pod("Running"))
    after = workflow(phase="Succeeded", plan=PLANNED, batches={"data": {"data-1": (Pod(),)}}, finish=Pod())
    for found, phase in ((before, "Running"), (after, "Failed")):
        shown = {"id": "s", "name": "lifecycle-1.report.show", "type": "Pod", "phase": phase, "startedAt": AT,
                 "finishedAt": AT, "message": "no artifact repository"}  # fmt: skip
        found["status"]["nodes"]["s"] = shown
    assert lines(workflow(plan=PLANNED, batches={}, asked=1), before, after)[-2:] == [
        "finish done in 10.0 s", "report failed: no artifact repository"]  # fmt: skip
    text = "\n".join(summary(view(after), "w"))
    assert text.startswith("1 ran, 1 failed in")
    assert "succeeded nevertheless" in text
    assert view(after).exit_code == 0


@pytest.mark.parametrize(("found", "code", "words"), [
    (workflow(phase="Succeeded", plan=PLANNED, batches={"data": {"d": (Pod(),)}}), 0, ["1 ran in 1m 40s"]),
    (workflow(phase="Failed", plan=PLANNED, batches={"data": {"d": (Pod("Failed", code=2, message=WRONG),)}},
              blocked=["clean", "tokenize"]), 2,
     ["1 failed, 2 blocked in 1m 40s", "data failed: data.inputs: absent.txt does not exist",
      "log: argosy logs data --on argo --workflow w", "Correct the config or the input and submit again"]),
    (workflow(phase="Failed", plan=PLANNED, batches={"data": {"d": (Pod("Failed", code=1, message="gone"),)}}), 1,
     ["data failed: gone", "Fix the cause and 'argosy retry w'"]),
    (workflow(phase="Failed", plan=PLANNED, message="Stopped with strategy 'Stop'", batches={
        "data": {"d": (Pod("Failed", code=143, message="workflow shutdown with strategy:  Stop"),)}}), 1,
     ["1 stopped in", "Stopped. 'argosy retry w' continues from here."]),
    (workflow(phase="Error", message="invalid spec: no x"), 2, ["lifecycle-1 error: invalid spec: no x"])])  # fmt: skip
def test_the_end(found: dict[str, Any], code: int, words: list[str]) -> None:
    assert view(found).exit_code == code
    text = "\n".join(summary(view(found), "w"))
    assert all(word in text for word in words), text


def test_watch_waits_for_an_api_that_is_away_and_not_for_one_that_refuses(api: Api,
                                                                          capsys: pytest.CaptureFixture[str]) -> None:
    api.workflows = {"w": workflow("w", plan=PLANNED)}
    api.later = {"w": [workflow("w", "Succeeded", plan=PLANNED)]}
    api.faults = [503, 0, 503]
    client, pauses = connect(), []
    assert watch(client, "w", sleep=pauses.append, clock=lambda: 0.0).exit_code == 0
    said = capsys.readouterr().out.splitlines()
    assert "keeps asking" in said[0]
    assert said[1].endswith(" it answers again")
    assert pauses[:3] == sorted(set(pauses[:3]))  # longer each time
    api.faults = [403]
    with pytest.raises(ApiError, match="403"):
        watch(client, "w", sleep=pauses.append)


def test_the_command_ends_with_the_workflow_s_code_and_ctrl_c_leaves_it_alone(api: Api, monkeypatch: pytest.MonkeyPatch,
                                                                              argosy: Argosy) -> None:
    failed = {"data": {"d": (Pod("Failed", code=2, message=WRONG),)}}
    api.workflows = {"w": (found := workflow("w", "Failed", plan=PLANNED, batches=failed))}
    node = next(each for each in found["status"]["nodes"].values() if each["name"].endswith("data(0)"))
    node["outputs"]["artifacts"] = [{"name": "report", "s3": {"key": "k"}}]
    out = argosy("watch", "--context", "here", code=2).out
    link = f"http://localhost:2746/artifact-files/argosy/workflows/w/{node['id']}/outputs/report"
    assert f"report: {link}" in out
    assert "workflow: w" in out
    assert "argosy logs data --on argo --workflow w --context here" in out

    def interrupted(client: ArgoClient, name: str) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("workflows.argo.client.watch.watch", interrupted)
    assert "w continues: 'argosy watch w' follows it again, 'argosy stop w' ends it" in argosy("watch", "w", code=1).out
    assert all(method == "GET" for method, *_ in api.asked)


def test_status_has_a_line_for_each_task_in_their_order() -> None:
    parts = {"evaluate-sft-abc-1of3": (Pod(),), "evaluate-sft-abc-2of3": (Pod("Running", progress="500/1000"),),
             "evaluate-sft-abc-3of3": (Pod("Pending", message="PodInitializing"),)}  # fmt: skip
    told = describe_workflow(view(workflow(plan=PLANNED, batches={"evaluate-sft": parts, "clean": {
        "clean-1": (Pod("Failed", code=75), Pod("Failed", code=1, message="main: Error (exit code 1): why"))
    }}, skipped=["data"], blocked=["tokenize"])), "w").splitlines()  # fmt: skip
    names = [line.split()[0] for line in told[1:7]]
    assert names == ["plan", "data", "clean", "tokenize", "evaluate-sft", "evaluate-sft/2of3"]
    assert "attempt 2; why; log: argosy logs clean --on argo --workflow w" in told[3]
    assert "1 done, 1 running, 1 pending" in told[5]
    assert "50%" in told[6]
    assert told[-1] == "4 of 9 nodes to run, store /store/runs"


@pytest.mark.parametrize(("phase", "state"), [("Succeeded", "skipped"), ("Failed", "blocked")])
def test_what_was_not_asked_for_is_skipped_and_not_blocked(phase: str, state: str) -> None:
    """Argo omits a task after one that it omitted; only where something failed that is the cause."""
    found = view(workflow(phase=phase, plan=PLANNED, blocked=["tokenize"], skipped=["clean"]))
    states = {task.name: task.state for task in found.tasks}
    assert (states["tokenize"], states["clean"]) == (state, "skipped")


def test_nodes_that_argo_compressed_are_unpacked_and_those_in_a_database_are_not_invented() -> None:
    found = workflow(plan=PLANNED, batches={"data": {"data-1": (Pod(),)}})
    packed = base64.b64encode(gzip.compress(json.dumps(found["status"].pop("nodes")).encode())).decode()
    found["status"]["compressedNodes"] = packed
    assert [unit.label for unit in view(found).units] == ["plan", "data"]
    del found["status"]["compressedNodes"]
    found["status"]["offloadNodeStatusVersion"] = "fnv:1"
    with pytest.raises(InputError, match="Argo's UI"):
        view(found)
