"""submit, stop, retry and logs against a small server that speaks Kubernetes' REST API."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from argosy.core.errors import InputError
from tests.argo_api import CUSTOM, Api, kubeconfig, serving
from tests.argo_objects import Pod, identity, template, workflow
from tests.command_line import Argosy
from workflows.argo.client.api import ApiError, connect
from workflows.cli import main

TEMPLATE = f"{CUSTOM}/workflowtemplates/lifecycle"


@pytest.fixture
def api(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Api]:
    """A cluster with our template; the command line finds it in its environment."""
    with serving(Api(objects={TEMPLATE: template(to=["", "clean", "compare"])})) as found:
        monkeypatch.setenv("KUBECONFIG", str(kubeconfig(tmp_path, found.url)))
        yield found


def test_submit_creates_a_workflow_of_the_template_and_says_where_to_look(api: Api, argosy: Argosy) -> None:
    Path("mine.yaml").write_text("preset: tiny\nsft: {epochs: 3}\n")
    argv = ("--config", "mine.yaml", "--to", "clean", "sft.learning_rate=1e-4", "seed=3", "--image-tag", "7")
    out = argosy("submit", *argv).out
    [created] = api.workflows.values()
    assert created["spec"]["workflowTemplateRef"] == {"name": "lifecycle"}
    given = {each["name"]: each["value"] for each in created["spec"]["arguments"]["parameters"]}
    assert given == {"preset": "tiny", "config": Path("mine.yaml").read_text(),
                     "overrides": "sft.learning_rate=1e-4\nseed=3", "to": "clean", "image-tag": "7"}
    assert "submitted lifecycle-1 in namespace argosy" in out
    assert "http://localhost:2746/workflows/argosy/lifecycle-1" in out  # of the profile that the template names
    assert "MLflow: http://localhost:5000" in out
    assert "argosy watch lifecycle-1" in out


@pytest.mark.parametrize(("argv", "words"), [
    (["sft.lerning_rate=1"], "sft.lerning_rate is not a field; nearest: sft.learning_rate"),
    (["data.inputs=a.txt", "twin=false"], "a path of this machine, which pods do not see"),
    (["--to", "sft"], "to is 'sft', allowed by the cluster's WorkflowTemplate: '', clean, compare"),
    (["--on", "local", "--namespace", "x"], "--namespace is for a cluster"),
    (["--on", "local", "--priority", "x"], "--priority is for a cluster"),
])
def test_what_is_wrong_is_said_here_and_creates_nothing(api: Api, argv: list[str], words: str, argosy: Argosy) -> None:
    assert words in argosy("submit", *argv, code=2).err
    assert not api.workflows


def test_an_older_template_that_lacks_a_parameter_is_named(api: Api, argosy: Argosy) -> None:
    api.objects[TEMPLATE] = template()
    api.objects[TEMPLATE]["spec"]["arguments"]["parameters"].pop()
    assert "has no parameter 'priority'" in argosy("submit", "--preset", "tiny", "--priority", "high", code=2).err


def test_stop_and_terminate(api: Api, argosy: Argosy) -> None:
    api.workflows = {"w": workflow("w")}
    argosy("stop", "w")
    argosy("stop", "w", "--terminate")
    assert api.bodies("PATCH") == [{"spec": {"shutdown": "Stop"}}, {"spec": {"shutdown": "Terminate"}}]


def test_what_is_over_is_not_stopped_and_what_runs_or_succeeded_is_not_retried(api: Api, argosy: Argosy) -> None:
    api.workflows = {"done": workflow("done", "Succeeded"), "busy": workflow("busy")}
    assert "done is over: it succeeded" in argosy("stop", "done", code=2).err
    assert "there is nothing to run again" in argosy("retry", "done", code=2).err
    assert "busy is not over" in argosy("retry", "busy", code=2).err
    assert not api.bodies("PATCH") + api.bodies("POST")


def test_retry_submits_the_same(api: Api, argosy: Argosy) -> None:
    api.workflows = {"w": workflow("w", "Failed", plan=Pod())}
    out = argosy("retry", "w").out
    submitted = api.workflows["lifecycle-2"]
    assert submitted["spec"]["arguments"]["parameters"] == [{"name": "preset", "value": "tiny"}]
    assert submitted["metadata"]["annotations"] == {"argosy/retry-of": "w"}
    assert "submitted lifecycle-2 with the parameters of w; finished steps are not repeated" in out


def test_logs_of_a_task_are_those_of_its_last_attempt(api: Api, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    tries = (Pod("Failed", code=75), Pod(start=30, end=40))
    api.workflows = {"w": workflow("w", "Succeeded", {"clean": {"clean-0123": tries}}, plan=Pod())}
    node = identity("w.clean(1)", "w")
    pod = f"w-step-{node.rpartition('-')[2]}"
    api.logs = {pod: 'one\ntime=now level=INFO msg="sub-process exited" argo=true\n二\n'}
    assert main(["logs", "clean", "--on", "argo"]) == 0
    assert capfdbinary.readouterr().out.decode() == "one\n二\n"
    api.logs.clear()
    assert main(["logs", "clean", "--on", "argo"]) == 2
    assert b"the step's own log is in the store: /store/runs/clean-0123/log.txt" in capfdbinary.readouterr().err


@pytest.mark.parametrize(("node", "words"), [
    ("cleam", "'cleam' is no task of w; nearest: clean"),
    ("evaluate_sft", "is not one pod; name one of them: evaluate-sft/1of2, evaluate-sft/2of2"),
    ("tokenize", "tokenize did not start, since a node that it needs failed"),
    ("data", "data is already done, or outside"),
])
def test_logs_of_what_has_none(api: Api, node: str, words: str, argosy: Argosy) -> None:
    parts = {f"evaluate-sft-abc-{n}of2": (Pod(),) for n in (1, 2)}
    batches = {"clean": {"clean-0": (Pod(),)}, "evaluate-sft": parts}
    api.workflows = {"w": workflow("w", "Failed", batches, plan=Pod(), blocked=["tokenize"], skipped=["data"])}
    assert words in argosy("logs", node, "--on", "argo", "--workflow", "w", code=2).err


def test_without_a_name_the_newest_and_a_wrong_one_names_the_nearest(api: Api, argosy: Argosy) -> None:
    said = argosy("status", "--on", "argo", code=2).err
    assert "there is no workflow of Argosy in namespace argosy; 'argosy submit' makes one" in said
    api.workflows = {"lifecycle-a": workflow("lifecycle-a"), "lifecycle-b": workflow("lifecycle-b")}
    api.workflows["lifecycle-b"]["metadata"]["creationTimestamp"] = "2026-01-02T00:00:00Z"
    assert connect().find()["metadata"]["name"] == "lifecycle-b"
    assert "nearest: lifecycle-b, lifecycle-a" in argosy("status", "lifecycle-x", "--on", "argo", code=2).err
    said = argosy("status", "--all", "--on", "argo").out
    assert [line.split()[0] for line in said.splitlines()[1:]] == ["lifecycle-b", "lifecycle-a"]


def test_an_api_that_refuses_and_one_that_is_away_are_told_apart(api: Api) -> None:
    api.workflows = {"w": workflow("w")}
    for fault, code in ((403, 2), (0, 1), (503, 1)):
        api.faults = [fault]
        with pytest.raises(ApiError, match=r"\(403\): for a while; ask for the right|503|not answer") as refused:
            connect().get("w")
        assert (refused.value.exit_code, refused.value.passing) == (code, code == 1)


def test_a_context_that_is_not_there(api: Api, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InputError, match="--context is 'nowhere', allowed: here, other"):
        connect(context="nowhere")


def test_where_a_command_works_can_be_set_for_good(api: Api, argosy: Argosy, monkeypatch: pytest.MonkeyPatch) -> None:
    api.workflows = {"w": workflow("w", "Succeeded")}
    monkeypatch.setenv("ARGOSY_ON", "argo")
    argosy("status", "w")
    monkeypatch.setenv("ARGOSY_ON", "local")
    argosy("watch", "w", code=2)
    monkeypatch.setenv("ARGOSY_ON", "moon")
    argosy("watch", "w", code=2)
