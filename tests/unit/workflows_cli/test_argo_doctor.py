"""`argosy doctor`: each thing that a cluster may lack is found, and only that."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.argo_api import CORE, CUSTOM, Api
from tests.command_line import Argosy
from workflows.argo.doctor import path_of
from workflows.argo.manifests.documents import manifests
from workflows.argo.profile.profile import load_profile

PROFILE = {
    "name": "team", "storage": {"claim": "store"}, "artifacts": True, "priorities": ["high"],
    "defaults": {"secrets": ["hub"], "slot": "slots/training"}, "tracking": {"uri": "http://mlflow:5000"},
    "nightly": {"webhook_secret": "hooks/url"}, "nodes": {"queue": "train"},
    "events": {"hook": {"webhook": {"secret": "hub/token"}}}}  # fmt: skip
DEPLOYMENTS = "/apis/apps/v1/deployments"
SELF = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
JOBSET = "/apis/jobset.x-k8s.io/v1alpha2"
QUEUE = "/apis/kueue.x-k8s.io/v1beta1/namespaces/argosy/localqueues/train"
BUS = f"{CUSTOM}/eventbus/default"
VOLCANO = "/apis/scheduling.volcano.sh/v1beta1"


@pytest.fixture
def api(api: Api) -> Api:
    """A cluster that lacks nothing."""
    Path("team.yaml").write_text(yaml.safe_dump(PROFILE))
    api.objects = healthy()
    return api


def healthy() -> dict[str, Any]:
    kinds = ("workflows", "workflowtemplates", "cronworkflows", "workflowtaskresults")
    made = manifests(load_profile("team.yaml"))
    ours = [each for given in made.values() for each in given]
    return {path_of(each, "argosy"): each for each in ours} | {
        CORE: {"metadata": {"name": "argosy"}}, f"{CORE}/configmaps": {"items": made["profile"]},
        "/version": {"gitVersion": "v1.34.0"},
        "/apis/argoproj.io/v1alpha1": {"resources": [{"name": kind} for kind in kinds]},
        DEPLOYMENTS: {"items": [controller("v4.1.2")]},
        JOBSET: {"resources": []}, QUEUE: {"metadata": {"name": "train"}}, BUS: {},
        SELF: lambda _, __: {"status": {"allowed": True}}, f"{CORE}/persistentvolumeclaims/store": claim(),
        "/apis/scheduling.k8s.io/v1/priorityclasses/high": {"value": 1},
        f"{CORE}/configmaps/slots": {"data": {"training": "2"}},
        f"{CORE}/configmaps/artifact-repositories": {"metadata": {}, "data": {"s3": "s3: {bucket: argosy}"}},
        **{f"{CORE}/secrets/{name}": {"metadata": {"name": name}} for name in ("hub", "hooks")}}


def controller(tag: str, ready: int = 1, image: str = "workflow-controller") -> dict[str, Any]:
    containers = [{"image": f"quay.io/argoproj/{image}:{tag}"}]
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
    (JOBSET, None, "FAIL", "there is no JobSet"), (QUEUE, None, "FAIL", "there is no LocalQueue train"),
    (BUS, None, "FAIL", "there is no EventBus of Argo Events")]  # fmt: skip


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
    assert ["cannot be looked at" in line for line in doctor(argosy)] == [True]


def test_all_that_a_queue_of_volcano_lacks(api: Api, argosy: Argosy) -> None:
    Path("team.yaml").write_text(yaml.safe_dump(PROFILE | {"nodes": {"queue": {"kind": "Volcano"}}}))
    api.objects = healthy()
    lacks = ["API of", "Queue default of", "deployment of Volcano's vc-scheduler", "deployment of Volcano's vc-contr"]
    assert [each in line for each, line in zip(lacks, doctor(argosy, code=1), strict=True)] == [True] * 4
    deployments = [controller("v1", image=image) for image in ("vc-scheduler", "vc-controller-manager")]
    api.objects |= {VOLCANO: {}, f"{VOLCANO}/queues/default": {},
                    DEPLOYMENTS: {"items": [controller("v4.1.2"), *deployments]}}
    assert doctor(argosy) == []


def test_a_bucket_is_not_tried_from_here(api: Api, argosy: Argosy) -> None:
    Path("team.yaml").write_text(yaml.safe_dump(PROFILE | {"storage": {"uri": "s3://bucket/runs"}}))
    api.objects = healthy()
    [wrong] = doctor(argosy)
    assert "s3://bucket/runs is not tried from here, since pods have the credentials" in wrong


def test_a_profile_of_another_store_than_the_templates(api: Api, argosy: Argosy) -> None:
    Path("other.yaml").write_text(yaml.safe_dump(PROFILE | {"storage": {"claim": "elsewhere"}}))
    told = argosy("doctor", "--profile", "other.yaml", code=1).out
    words = "the templates are of the store claim store, at /store/runs, and the profile team has claim elsewhere"
    assert f"FAIL  profiles    {words}" in told


def test_a_namespace_that_is_not_there_is_the_one_thing_that_is_told(api: Api, argosy: Argosy) -> None:
    [only] = doctor(argosy, "--namespace", "nope", code=1)
    assert "there is no namespace nope" in only
