"""`argosy doctor`: each thing that a cluster may lack is found, and only that."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.argo_api import CORE, CUSTOM, Api, kubeconfig, serving
from tests.argo_fixtures import BUCKET, s3_server
from tests.command_line import Argosy
from workflows.argo.doctor.checks import path_of
from workflows.argo.doctor.pod_script import main as pod_script
from workflows.argo.manifests.documents import manifests
from workflows.argo.objectstore.files import Remote
from workflows.argo.profile.profile import load_profile

PROFILE = {
    "name": "team", "storage": {"claim": "store"}, "artifacts": True, "priorities": ["high"],
    "defaults": {"secrets": ["hub"], "slot": "slots/training"}, "tracking": {"uri": "http://mlflow:5000"},
    "nightly": {"webhook_secret": "hooks/url"},
}  # fmt: skip
DEPLOYMENTS = "/apis/apps/v1/deployments"
SELF = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"


@pytest.fixture
def api(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Api]:
    """A cluster that lacks nothing."""
    Path("team.yaml").write_text(yaml.safe_dump(PROFILE))
    with serving(Api(objects=healthy())) as found:
        monkeypatch.setenv("KUBECONFIG", str(kubeconfig(tmp_path, found.url)))
        yield found


def healthy() -> dict[str, Any]:
    kinds = ("workflows", "workflowtemplates", "cronworkflows", "workflowtaskresults")
    ours = [each for given in manifests(load_profile("team.yaml")).values() for each in given]
    return {path_of(each, "argosy"): each for each in ours} | {
        CORE: {"metadata": {"name": "argosy"}},
        f"{CORE}/configmaps": {"items": manifests(load_profile("team.yaml"))["profile"]},
        "/version": {"gitVersion": "v1.34.0"},
        "/apis/argoproj.io/v1alpha1": {"resources": [{"name": kind} for kind in kinds]},
        DEPLOYMENTS: {"items": [controller("v4.1.2")]},
        SELF: lambda _, __: {"status": {"allowed": True}},
        f"{CORE}/persistentvolumeclaims/store": claim(),
        "/apis/scheduling.k8s.io/v1/priorityclasses/high": {"value": 1},
        f"{CORE}/configmaps/slots": {"data": {"training": "2"}},
        f"{CORE}/configmaps/artifact-repositories": {"metadata": {}, "data": {"s3": "s3: {bucket: argosy}"}},
        f"{CORE}/secrets/hub": {"metadata": {"name": "hub"}},
        f"{CORE}/secrets/hooks": {"metadata": {"name": "hooks"}},
    }


def controller(tag: str, ready: int = 1) -> dict[str, Any]:
    containers = [{"image": f"quay.io/argoproj/workflow-controller:{tag}"}]
    return {"metadata": {"name": "workflow-controller", "namespace": "argo"}, "status": {"readyReplicas": ready},
            "spec": {"template": {"spec": {"containers": containers}}}}  # fmt: skip


def claim(phase: str = "Bound", mode: str = "ReadWriteMany") -> dict[str, Any]:
    return {"spec": {"accessModes": [mode]}, "status": {"phase": phase}}


def doctor(argosy: Argosy, *more: str, code: int = 0) -> list[str]:
    """The lines that are not ok."""
    told = argosy("doctor", "--profile", "team.yaml", *more, code=code).out.splitlines()
    return [line for line in told if line.startswith(("FAIL", "warn"))]


def test_a_cluster_that_lacks_nothing(api: Api, argosy: Argosy) -> None:
    assert doctor(argosy) == []
    assert not [method for method, path, _, _ in api.asked if method != "GET" and "review" not in path]  # it only looks


LACKS: list[tuple[str, Any, str, str]] = [
    ("/apis/argoproj.io/v1alpha1", None, "FAIL", "without cronworkflows.argoproj.io"),
    (DEPLOYMENTS, {"items": []}, "FAIL", "no deployment of Argo's workflow-controller"),
    (DEPLOYMENTS, {"items": [controller("v4.1.2", ready=0)]}, "FAIL", "is not ready"),
    (DEPLOYMENTS, {"items": [controller("v3.4.11")]}, "FAIL", "Argo 3.4.11: too old"),
    (f"{CUSTOM}/workflowtemplates/lifecycle", None, "FAIL", "without WorkflowTemplate lifecycle"),
    (SELF, lambda _, body: {"status": {"allowed": "pods" not in str(body)}}, "FAIL", "you may not get pods/log"),
    (f"{CORE}/persistentvolumeclaims/store", None, "FAIL", "there is no PersistentVolumeClaim store"),
    (f"{CORE}/persistentvolumeclaims/store", claim("Lost"), "FAIL", "the claim store is Lost"),
    (f"{CORE}/persistentvolumeclaims/store", claim(mode="ReadWriteOnce"), "warn", "the claim store is ReadWriteOnce"),
    ("/apis/scheduling.k8s.io/v1/priorityclasses/high", None, "FAIL", "there is no PriorityClass high"),
    (f"{CORE}/configmaps/slots", None, "FAIL", "semaphore slots/training is not there"),
    (f"{CORE}/configmaps/artifact-repositories", None, "FAIL", "no repository is configured"),
    (f"{CORE}/secrets/hub", None, "FAIL", "there is no Secret hub"),
]  # fmt: skip


@pytest.mark.parametrize(("path", "instead", "state", "words"), LACKS, ids=[lack[3] for lack in LACKS])
def test_what_is_missing_is_found_alone(api: Api, path: str, instead: Any, state: str, words: str,
                                        argosy: Argosy) -> None:
    api.objects[path] = instead
    wrong = doctor(argosy, code=int(state == "FAIL"))
    assert len(wrong) == 1, wrong
    assert wrong[0].startswith(state)
    assert words in wrong[0]


def test_an_api_server_that_is_away_is_one_failure_and_not_ten(api: Api, argosy: Argosy) -> None:
    api.faults = [0, 0]
    wrong = doctor(argosy, code=1)
    assert len(wrong) == 1
    assert "does not answer" in wrong[0]


def test_what_may_not_be_looked_at_is_no_failure(api: Api, argosy: Argosy) -> None:
    answer = api.answer

    def forbidding(method: str, path: str, query: dict[str, str], body: dict[str, Any]) -> tuple[int, Any]:
        return (403, {"message": "no"}) if "secrets" in path else answer(method, path, query, body)

    api.answer = forbidding  # type: ignore[method-assign]
    wrong = doctor(argosy)
    assert ["cannot be looked at" in line for line in wrong] == [True]


def pods(api: Api, status: dict[str, Any], log: str) -> list[str]:
    """Pods that are created have this status and log; returns a list that fills with what was deleted."""
    deleted: list[str] = []
    answer = api.answer

    def serving_pods(method: str, path: str, query: dict[str, str], body: dict[str, Any]) -> tuple[int, Any]:
        if (method, path) == ("POST", f"{CORE}/pods"):
            api.objects[f"{CORE}/pods/doctor-1"] = {"metadata": {"name": "doctor-1"}, "status": status}
            api.logs["doctor-1"] = log
            return 200, {"metadata": {"name": "doctor-1"}}
        if method == "DELETE":
            deleted.append(path)
        return answer(method, path, query, body)

    api.answer = serving_pods  # type: ignore[method-assign]
    return deleted


SAID = {"uid": 1000, "python": "3.11.9", "imports": "", "mlflow": ""}  # by the pod's script


def test_deep_starts_a_pod_of_each_image_and_takes_it_away(api: Api, argosy: Argosy) -> None:
    log = f"a warning\n{json.dumps({**SAID, 'store': 'PermissionError: /store/runs'})}\n"
    deleted = pods(api, {"phase": "Succeeded"}, log)
    wrong = doctor(argosy, "--deep", code=1)
    assert ["store: PermissionError" in line for line in wrong] == [True, True]
    assert len(deleted) == 2
    created = [body for body in api.bodies("POST") if body.get("kind") == "Pod"]
    assert [each["spec"]["containers"][0]["image"] for each in created] == ["argosy-data:latest", "argosy-train:latest"]
    for each in created:
        assert each["spec"]["securityContext"]["runAsNonRoot"]
        assert each["spec"]["automountServiceAccountToken"] is False
        assert "{{" not in json.dumps(each["spec"]["containers"][0]["env"])


def test_an_image_that_cannot_be_pulled_is_told_at_once(api: Api, argosy: Argosy) -> None:
    waiting = {"reason": "ImagePullBackOff", "message": "no such image"}
    status = {"phase": "Pending", "containerStatuses": [{"state": {"waiting": waiting}}]}
    deleted = pods(api, status, "")
    wrong = doctor(argosy, "--deep", code=1)
    assert "argosy-data:latest: ImagePullBackOff: no such image" in wrong[0]
    assert len(deleted) == 2


def test_the_pod_s_script_tries_the_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
                                          capsys: pytest.CaptureFixture[str]) -> None:
    """moto keeps a second writer off (If-None-Match), and has no bucket `another`."""

    def said(store: Path, uri: str = "") -> str:
        monkeypatch.setattr("sys.argv", ["-c", str(store), "", uri, "{}"])
        pod_script()
        found = json.loads(capsys.readouterr().out)
        assert found["imports"] == found["mlflow"] == ""
        return str(found["store"])

    (tmp_path / "file").write_text("")
    assert [said(tmp_path / each) == "" for each in ("runs", "file/runs")] == [True, False]
    assert not list((tmp_path / "runs").iterdir())
    with s3_server() as environment:
        for name, value in environment.items():
            monkeypatch.setenv(name, value)
        assert said(tmp_path, f"s3://{BUCKET}/runs") == ""
        assert "there is no such bucket" in said(tmp_path, "s3://another/runs")
        assert not Remote(f"s3://{BUCKET}/runs", {}).list()


def test_a_bucket_is_tried_from_a_pod_with_its_credentials_and_only_there(api: Api, argosy: Argosy,
                                                                          tmp_path: Path) -> None:
    given = yaml.safe_load((tmp_path / "team.yaml").read_text())
    given["storage"] = {"uri": "s3://bucket/runs", "options": {"anon": False}}
    (tmp_path / "team.yaml").write_text(yaml.safe_dump(given))
    api.objects = healthy()
    [wrong] = doctor(argosy)
    assert "s3://bucket/runs is not tried from here, since pods have the credentials" in wrong
    pods(api, {"phase": "Succeeded"}, json.dumps({**SAID, "store": "InputError: there is no such bucket"}))
    assert "there is no such bucket" in doctor(argosy, "--deep", code=1)[0]
    [container] = next(body for body in api.bodies("POST") if body.get("kind") == "Pod")["spec"]["containers"]
    assert container["args"][2:] == ["s3://bucket/runs", '{"anon": false}']
    assert container["envFrom"] == [{"secretRef": {"name": "hub"}}]


def test_a_profile_of_another_store_than_the_templates(api: Api, argosy: Argosy) -> None:
    Path("other.yaml").write_text(yaml.safe_dump(PROFILE | {"storage": {"claim": "elsewhere"}}))
    told = argosy("doctor", "--profile", "other.yaml", code=1).out
    words = "the templates are of the store claim store, at /store/runs, and the profile team has claim elsewhere"
    assert f"FAIL  profiles    {words}" in told


def test_a_namespace_that_is_not_there_is_the_one_thing_that_is_told(api: Api, argosy: Argosy) -> None:
    [only] = doctor(argosy, "--namespace", "nope", code=1)
    assert "there is no namespace nope" in only
