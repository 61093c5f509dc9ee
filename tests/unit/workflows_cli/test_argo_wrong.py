"""What the command line says of clusters that are not there, not Argo's, or not what was asked for."""

from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from tests.argo_api import CORE, CUSTOM, Api, kubeconfig, serving
from tests.argo_fixtures import write_profile
from tests.argo_objects import Pod, workflow
from tests.command_line import Argosy
from workflows.argo.manifests.documents import manifests
from workflows.argo.profile.profile import load_profile

PLANNED = Pod(start=0, end=4)
PULL = 'ErrImagePull: failed to pull "argosy-data:nope"'
WRONG = Pod("Failed", code=2, message="main: Error (exit code 2): data: data.inputs: absent.txt does not exist")
ALL = [["submit", "--preset", "tiny"], ["nightly", "--on", "argo"], ["status", "--on", "argo"], ["watch"],
       ["stop", "w"], ["retry", "w"], ["logs", "sft", "--on", "argo"], ["status", "--all", "--on", "argo"]]  # fmt: skip


@pytest.fixture
def api(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Api]:
    """A cluster with the templates of the profile `team.yaml`, by the kubeconfig."""
    profiles = write_profile(tmp_path, name="team")
    (profiles / "here.yaml").rename("team.yaml")
    with serving(Api()) as found:
        monkeypatch.setenv("KUBECONFIG", str(kubeconfig(tmp_path, found.url)))
        install(found, "team.yaml")
        yield found


def install(api: Api, profile: str) -> None:
    """What `kubectl apply -k` of the profile's manifests leaves of them, for what the command line reads."""
    made = manifests(load_profile(profile))
    for name in ("lifecycle", "evaluate"):
        api.objects[f"{CUSTOM}/workflowtemplates/{name}"] = made[name][0]
    [held] = made["profile"]
    api.objects[f"{CORE}/configmaps/{held['metadata']['name']}"] = held


def change(file: str, **values: object) -> None:
    Path(file).write_text(yaml.safe_dump(yaml.safe_load(Path("team.yaml").read_text()) | values))


@pytest.mark.parametrize("option", ["--namespace", "--profile"])
def test_an_option_without_a_value_is_not_the_default(option: str, argosy: Argosy) -> None:
    said = argosy("status", "--on", "argo", option, "", code=2).err
    assert f"argument {option}: is '', allowed: a value" in said


@pytest.mark.parametrize(("content", "words"), [
    (b"a: b: c\n", ["config is broken: ScannerError: mapping values are not allowed here", 'config", line 1']),
    (b"apiVersion: v1\nkind: Config\n", ["config names none", "current-context"]),
    (b"current-context: a\ncontexts: [{name: a}]\nclusters: 3\n", ["config is broken"]),
    (None, ["config names none, or is not there"]),
])
def test_a_kubeconfig_that_is_none(content: bytes | None, words: list[str], tmp_path: Path,
                                   monkeypatch: pytest.MonkeyPatch, argosy: Argosy) -> None:
    file = tmp_path / "config"
    if content is not None:
        file.write_bytes(content)
    monkeypatch.setenv("KUBECONFIG", str(file))
    for argv in (["status", "--on", "argo"], ["doctor"]):
        err = argosy(*argv, code=2).err
        assert all(word in err for word in [*words, "set KUBECONFIG to a file that is there, or --context"]), err


@pytest.mark.parametrize("argv", ALL, ids=lambda argv: argv[0])
def test_a_namespace_that_is_not_there(argv: list[str], api: Api, argosy: Argosy) -> None:
    api.objects["/apis/argoproj.io/v1alpha1/namespaces/nope/workflows"] = {"items": []}  # as Kubernetes says it
    err = argosy(*argv, "--namespace", "nope", code=2).err
    assert "there is no namespace 'nope': name another --namespace" in err
    assert "kubectl create namespace nope" in err


@pytest.mark.parametrize(("command", "name"), [("nightly", "evaluate"), ("submit", "lifecycle")])
def test_a_cluster_without_the_template_is_told_how_to_get_it(command: str, name: str, api: Api,
                                                              argosy: Argosy) -> None:
    del api.objects[f"{CUSTOM}/workflowtemplates/{name}"]
    err = argosy(command, "--on", "argo", "--profile", "team.yaml", code=2).err
    assert f"there is no WorkflowTemplate '{name}' in namespace argosy" in err
    assert "'argosy manifests --profile team.yaml --out DIR' and 'kubectl apply -k DIR/team'" in err


@pytest.mark.parametrize("command", [["submit", "--preset", "tiny"], ["nightly", "--on", "argo"]])
@pytest.mark.parametrize(("changes", "notes"), [
    ({}, []),
    ({"name": "other"}, ["was made from the profile team: images, resources, devices and places are those of "
                         "other; accounts, volumes, attempts and deadlines stay those of team",
                         "argosy manifests --profile mine.yaml --out DIR' and 'kubectl apply -k DIR/other'"]),
    ({"user": 1001}, ["the profile team that the namespace holds differs in user, and pods read that one"]),
])  # fmt: skip
def test_a_profile_that_is_not_the_installed_one_is_told_before_it_is_submitted(
    command: list[str], changes: dict[str, object], notes: list[str], api: Api, monkeypatch: pytest.MonkeyPatch,
    argosy: Argosy,
) -> None:  # fmt: skip
    change("mine.yaml", **changes)
    if changes.get("name"):
        [held] = manifests(load_profile("mine.yaml"))["profile"]
        api.objects[f"{CORE}/configmaps/{held['metadata']['name']}"] = held
    err = argosy(*command, "--profile", "mine.yaml").err
    assert all(note in err for note in notes), err
    assert bool(notes) == ("note:" in err)
    monkeypatch.setenv("ARGOSY_PROFILE", "mine.yaml")
    assert argosy(*command).err == err
    given = [each for created in api.workflows.values() for each in created["spec"]["arguments"]["parameters"]]
    assert [each["value"] for each in given if each["name"] == "profile"] == [changes.get("name", "team")] * 2


def test_a_profile_of_another_store_or_that_pods_would_not_find_is_not_submitted(api: Api, argosy: Argosy) -> None:
    change("mine.yaml", name="other", storage={"claim": "elsewhere"})
    said = argosy("submit", "--preset", "tiny", "--profile", "mine.yaml", code=2).err
    words = "profile is 'other', whose store is claim elsewhere, at /store/runs, but the WorkflowTemplate was made for"
    assert words in said
    change("mine.yaml", name="other")
    said = argosy("submit", "--preset", "tiny", "--profile", "mine.yaml", code=2).err
    assert "profile 'other' is not in the namespace, and pods would not find it" in said
    assert not api.workflows


@pytest.mark.parametrize(("pods", "words"), [
    ({"plan": PLANNED}, "w is being stopped; its exit handler still reports to MLflow."),
    ({"plan": Pod("Pending", message="PodInitializing")}, "its exit handler still reports to MLflow."),
    ({"plan": Pod("Pending", message=PULL)},
     f"its exit handler cannot start while its pod waits as that of plan does ({PULL}): "
     "'argosy stop w --terminate' ends it at once (nothing has run, so that loses no report)."),
    ({"plan": PLANNED, "finish": Pod("Pending", message=PULL)},
     f"that of finish does ({PULL}): 'argosy stop w --terminate' ends it at once (then the reconciler tells "
     "MLflow)."),
])  # fmt: skip
def test_stop_promises_no_report_of_a_pod_that_cannot_start(pods: dict[str, Pod], words: str, api: Api,
                                                            argosy: Argosy) -> None:
    api.workflows = {"w": workflow("w", **pods)}
    assert words in argosy("stop", "w").out
    assert "w is being terminated. 'argosy retry w' continues from here." in argosy("stop", "w", "--terminate").out


def test_a_list_has_the_newest_and_counts_the_others(api: Api, argosy: Argosy) -> None:
    for number in range(23):
        api.workflows[f"w-{number}"] = workflow(f"w-{number}", "Succeeded")
        api.workflows[f"w-{number}"]["metadata"]["creationTimestamp"] = f"2026-01-01T00:00:{number:02}Z"
    newest = [f"w-{number}" for number in reversed(range(23))]
    for argv, count in (([], 20), (["--limit", "3"], 3), (["--limit", "0"], 23), (["--limit", "23"], 23)):
        _, *lines = argosy("status", "--on", "argo", "--all", *argv).out.splitlines()
        assert [line.split()[0] for line in lines if line.startswith("w-")] == newest[:count]
        assert lines[count:] == ([f"and {23 - count} older; --limit 0 lists them too"] if count < 23 else [])


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
