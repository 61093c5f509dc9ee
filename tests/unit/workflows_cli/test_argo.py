"""submit, stop, retry and logs against a small server of Kubernetes' REST API; clusters that are absent or others."""

from pathlib import Path

import pytest
import yaml

from tests.argo_api import CORE, CUSTOM, Api, Pod, identity, template, workflow
from tests.argo_fixtures import write_profile
from tests.command_line import Argosy
from workflows.argo.client.api import ApiError, connect
from workflows.argo.manifests.documents import manifests
from workflows.argo.profile.profile import load_profile
from workflows.cli import main

TEMPLATE = f"{CUSTOM}/workflowtemplates/lifecycle"
PLANNED = Pod(start=0, end=4)
PULL = 'ErrImagePull: failed to pull "argosy-data:nope"'
WRONG = Pod("Failed", code=2, message="main: Error (exit code 2): data: data.inputs: absent.txt does not exist")


@pytest.fixture
def api(api: Api) -> Api:
    """A cluster with our template."""
    api.objects[TEMPLATE] = template(to=["", "clean", "compare"])
    return api


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
    (["--to", "sft"], "to is 'sft', allowed by the cluster's WorkflowTemplate: '', clean, compare")])
def test_what_is_wrong_is_said_here_and_creates_nothing(api: Api, argv: list[str], words: str, argosy: Argosy) -> None:
    assert words in argosy("submit", *argv, code=2).err
    assert not api.workflows


@pytest.mark.parametrize(("plan", "code", "words"), [
    (PLANNED, 0, "0 of 9 nodes to run, store /store/runs"),
    (WRONG, 2, "argosy submit: the plan of lifecycle-1: data: data.inputs: absent.txt does not exist"),
    (Pod("Failed", code=1, message="no space left"), 1, "argosy submit: the plan of lifecycle-1: no space left"),
    (Pod("Pending", message=PULL), 0, f"note: the plan has not ended after 1 s ({PULL}), and may yet refuse: 'a")])
def test_submit_waits_for_what_the_plan_says(api: Api, plan: Pod, code: int, words: str, argosy: Argosy) -> None:
    api.plan = plan
    said = argosy("submit", "--preset", "tiny", "--wait", "1", code=code)
    assert words in said.out + said.err
    assert "plan" not in (said := argosy("submit", "--preset", "tiny", "--wait", "0")).out + said.err


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
    ("data", "data is already done, or outside")])
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


def test_an_api_that_refuses_and_one_that_is_away_are_told_apart(api: Api) -> None:
    api.workflows = {"w": workflow("w")}
    for fault, code in ((403, 2), (0, 1), (503, 1)):
        api.faults = [fault]
        with pytest.raises(ApiError, match=r"\(403\): for a while; ask for the right|503|not answer") as refused:
            connect().get("w")
        assert (refused.value.exit_code, refused.value.passing) == (code, code == 1)


def test_where_a_command_works_can_be_set_for_good(api: Api, argosy: Argosy, monkeypatch: pytest.MonkeyPatch) -> None:
    api.workflows = {"w": workflow("w", "Succeeded")}
    monkeypatch.setenv("ARGOSY_ON", "argo")
    argosy("status", "w")
    monkeypatch.setenv("ARGOSY_ON", "moon")
    assert "ARGOSY_ON is 'moon', allowed: local, argo" in argosy("status", "w", code=2).err
    assert "--context is 'x', allowed: here, other" in argosy("status", "--on", "argo", "--context", "x", code=2).err
    assert "--namespace is for a cluster" in argosy("status", "--on", "local", "--namespace", "x", code=2).err


@pytest.fixture
def team(api: Api) -> Api:
    """A cluster with what `kubectl apply -k` leaves of the manifests of `team.yaml`."""
    (write_profile(Path(), name="team") / "here.yaml").rename("team.yaml")
    made = manifests(load_profile("team.yaml"))
    for name in ("lifecycle", "evaluate"):
        api.objects[f"{CUSTOM}/workflowtemplates/{name}"] = made[name][0]
    hold(api, "team.yaml")
    return api


def hold(api: Api, profile: str) -> None:
    """Let the namespace have a profile's ConfigMap."""
    [held] = manifests(load_profile(profile))["profile"]
    api.objects[f"{CORE}/configmaps/{held['metadata']['name']}"] = held


def change(file: str, **values: object) -> None:
    Path(file).write_text(yaml.safe_dump(yaml.safe_load(Path("team.yaml").read_text()) | values))


@pytest.mark.parametrize(("content", "words"), [
    (b"a: b: c\n", ["config is broken: ScannerError: mapping values are not allowed here", 'config", line 1']),
    (b"apiVersion: v1\nkind: Config\n", ["config names none", "current-context"]),
    (None, ["config names none, or is not there"])])
def test_a_kubeconfig_that_is_none(content: bytes | None, words: list[str], tmp_path: Path,
                                   monkeypatch: pytest.MonkeyPatch, argosy: Argosy) -> None:
    file = tmp_path / "config"
    if content is not None:
        file.write_bytes(content)
    monkeypatch.setenv("KUBECONFIG", str(file))
    for argv in (["status", "--on", "argo"], ["doctor"]):
        err = argosy(*argv, code=2).err
        assert all(word in err for word in [*words, "set KUBECONFIG to a file that is there, or --context"]), err


@pytest.mark.parametrize("argv", [["submit", "--preset", "tiny"], ["watch"], ["logs", "sft", "--on", "argo"]])
def test_a_namespace_that_is_not_there(argv: list[str], api: Api, argosy: Argosy) -> None:
    api.objects["/apis/argoproj.io/v1alpha1/namespaces/nope/workflows"] = {"items": []}  # as Kubernetes says it
    err = argosy(*argv, "--namespace", "nope", code=2).err
    assert "there is no namespace 'nope': name another --namespace" in err
    assert "kubectl create namespace nope" in err


@pytest.mark.parametrize(("command", "name"), [(["nightly", "--on", "argo"], "evaluate"), (["submit"], "lifecycle")])
def test_a_cluster_without_the_template_is_told_how_to_get_it(command: list[str], name: str, team: Api,
                                                              argosy: Argosy) -> None:
    del team.objects[f"{CUSTOM}/workflowtemplates/{name}"]
    err = argosy(*command, "--profile", "team.yaml", code=2).err
    assert f"there is no WorkflowTemplate '{name}' in namespace argosy" in err
    assert "'argosy manifests --profile team.yaml --out DIR' and 'kubectl apply -k DIR/team'" in err


@pytest.mark.parametrize(("changes", "notes"), [
    ({}, []),
    ({"name": "other"}, ["was made from the profile team: images, resources, devices and places are those of "
                         "other; accounts, volumes, attempts and deadlines stay those of team",
                         "argosy manifests --profile mine.yaml --out DIR' and 'kubectl apply -k DIR/other'"]),
    ({"user": 1001}, ["the profile team that the namespace holds differs in user, and pods read that one"]),
])  # fmt: skip
def test_a_profile_that_is_not_the_installed_one_is_told_before_it_is_submitted(
    changes: dict[str, object], notes: list[str], team: Api, monkeypatch: pytest.MonkeyPatch, argosy: Argosy) -> None:
    command = ("submit", "--preset", "tiny")
    change("mine.yaml", **changes)
    if changes.get("name"):
        hold(team, "mine.yaml")
    err = argosy(*command, "--profile", "mine.yaml").err
    assert all(note in err for note in notes), err
    assert bool(notes) == ("note:" in err)
    monkeypatch.setenv("ARGOSY_PROFILE", "mine.yaml")
    assert argosy(*command).err == err
    given = [each for created in team.workflows.values() for each in created["spec"]["arguments"]["parameters"]]
    assert [each["value"] for each in given if each["name"] == "profile"] == [changes.get("name", "team")] * 2


def test_a_profile_of_another_store_or_that_pods_would_not_find_is_not_submitted(team: Api, argosy: Argosy) -> None:
    change("mine.yaml", name="other", storage={"claim": "elsewhere"})
    said = argosy("submit", "--preset", "tiny", "--profile", "mine.yaml", code=2).err
    words = "profile is 'other', whose store is claim elsewhere, at /store/runs, but the WorkflowTemplate was made for"
    assert words in said
    change("mine.yaml", name="other")
    said = argosy("submit", "--preset", "tiny", "--profile", "mine.yaml", code=2).err
    assert "profile 'other' is not in the namespace, and pods would not find it" in said
    assert not team.workflows


@pytest.mark.parametrize(("pods", "words"), [
    ({"plan": PLANNED}, "w is being stopped; its exit handler still reports to MLflow."),
    ({"plan": Pod("Pending", message=PULL)},
     f"its exit handler cannot start while its pod waits as that of plan does ({PULL}): "
     "'argosy stop w --terminate' ends it at once (nothing has run, so that loses no report)."),
    ({"plan": PLANNED, "finish": Pod("Pending", message=PULL)},
     f"that of finish does ({PULL}): 'argosy stop w --terminate' ends it at once (then the reconciler tells "
     "MLflow).")])  # fmt: skip
def test_stop_promises_no_report_of_a_pod_that_cannot_start(pods: dict[str, Pod], words: str, api: Api,
                                                            argosy: Argosy) -> None:
    api.workflows = {"w": workflow("w", **pods)}
    assert words in argosy("stop", "w").out
    assert "w is being terminated. 'argosy retry w' continues from here." in argosy("stop", "w", "--terminate").out
    assert api.bodies("PATCH") == [{"spec": {"shutdown": "Stop"}}, {"spec": {"shutdown": "Terminate"}}]


def test_what_was_refused_for_wrong_input_is_not_tried_again(api: Api, argosy: Argosy) -> None:
    failed = {"data": {"data-1": (WRONG,)}}
    api.workflows = {"w": workflow("w", "Failed", failed, plan=PLANNED), "p": workflow("p", "Failed", plan=WRONG),
                     "s": workflow("s", "Error", message="invalid spec: no such template")}
    for name in "wps":
        err = argosy("retry", name, code=2).err
        assert f"{name} was refused for wrong input, which a retry does not fix" in err
        assert f"'argosy watch {name}' names the cause; correct it and submit again" in err
    assert not api.bodies("POST")
    api.workflows["w"] = workflow("w", "Failed", {"data": {"data-1": (Pod("Failed", code=1),)}}, plan=PLANNED)
    argosy("retry", "w")
    assert len(api.bodies("POST")) == 1
