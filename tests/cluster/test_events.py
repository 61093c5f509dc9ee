"""Events that submit workflows through Argo Events: a webhook with its token, a push, files, a bucket, a checkpoint."""

import hashlib
import hmac
import json
import os
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.cluster.cluster import GROUP, VERSION, Cluster, definitions
from workflows.argo.profile.events import Event
from workflows.stored.events import watch_events

pytestmark = pytest.mark.cluster
BUS = Path(__file__).parents[2] / "argo-install/components/events/bus.yaml"
TOKEN, MINIO = "a token of the tests", "ARGOSY_TEST_MINIO"  # HOST:PORT of a MinIO with user and password minioadmin
ONLY = {"preset": "tiny", "to": "data"}
QUIET_S = 8.0  # a workflow that an event submits is there sooner


@pytest.fixture(scope="module")
def eventful(cluster: Cluster) -> Iterator[Cluster]:
    """The cluster with a bus, and the objects of a profile with events of all kinds that can be played here."""
    from kubernetes import client, dynamic

    if f"eventsources.{GROUP}" not in definitions() or not cluster.profile.storage.host_path:
        pytest.skip("the cluster has no Argo Events, or its store is a claim, which this machine does not see")
    root = Path(cluster.profile.storage.node_directory)
    (root / "incoming").mkdir(parents=True, exist_ok=True)
    watch_events(root)
    for path in (root, *root.rglob("*")):
        path.chmod(0o777)
    given = {"hook": {"webhook": {"secret": "events/token", "accepts": ["overrides"]}, "parameters": ONLY},
             "push": {"push": {"repository": "team/corpus", "secret": "events/token"}, "parameters": ONLY},
             "arrived": {"folder": {"path": f"{cluster.profile.storage.root}/incoming", "files": r".+\.jsonl"},
                         "parameters": {**ONLY, "overrides": "data.suites={name}"}},
             "trained": {"checkpoint": ["pretrain"], "template": "evaluate", "parameters": {"suites": "none"}},
             "moved": {"alias": "reference", "parameters": ONLY}}  # fmt: skip
    if os.environ.get(MINIO):
        keys = {"endpoint": os.environ[MINIO], "bucket": "events", "secret": "events", "insecure": True}
        given["object"] = {"bucket": {**keys, "suffix": ".jsonl"}, "parameters": {**ONLY, "overrides": "a={name}"}}
    events = {name: Event.model_validate(each) for name, each in given.items()}
    found = Cluster(cluster.profile.model_copy(update={"events": events}))
    keys = {"token": TOKEN, "accesskey": "minioadmin", "secretkey": "minioadmin"}
    secret = {"metadata": {"name": "events"}, "stringData": keys}
    client.CoreV1Api().create_namespaced_secret(cluster.namespace, secret)
    api = dynamic.DynamicClient(client.ApiClient())
    [bus] = yaml.safe_load_all(BUS.read_text().replace("namespace: argosy", f"namespace: {cluster.namespace}"))
    del bus["spec"]["jetstream"]["persistence"]  # a cluster of one node may have no storage class
    api.resources.get(api_version=bus["apiVersion"], kind="EventBus").create(body=bus, namespace=cluster.namespace)
    found.install()
    found.until(lambda: all(ready(found, kind) for kind in ("eventsources", "sensors")), "Argo Events' pods")
    found.until(lambda: post(found, "hook", {}, "wrong")[0] == 401, "the webhook")
    found.until(lambda: log(found, "sensor-name").count("Subscribing to subject") == len(events), "the sensor")
    yield found
    cluster.install()


def ready(cluster: Cluster, kind: str) -> bool:
    pods = cluster.labelled(f"{kind.removesuffix('s')}-name")
    made = cluster.custom().list_namespaced_custom_object(GROUP, VERSION, cluster.namespace, kind)["items"]
    up = [each for pod in pods for each in pod.status.container_statuses or () if each.ready]
    return len(up) >= len(made) > 0


def log(cluster: Cluster, label: str) -> str:
    from kubernetes import client

    read = client.CoreV1Api().read_namespaced_pod_log
    return "".join(read(pod.metadata.name, cluster.namespace) for pod in cluster.labelled(label))


def post(cluster: Cluster, path: str, body: Any, token: str = TOKEN, **headers: str) -> tuple[int, str]:
    from kubernetes import client

    service = client.CoreV1Api().read_namespaced_service("argosy-hooks-eventsource-svc", cluster.namespace)
    headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json", **headers}
    port = 12001 if path == "push" else 12000
    request = urllib.request.Request(f"http://{service.spec.cluster_ip}:{port}/{path}", json.dumps(body).encode(),
                                     headers)
    try:
        with urllib.request.urlopen(request, timeout=10) as answer:
            return int(answer.status), answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()
    except OSError:
        return 0, ""


def submitted(cluster: Cluster, event: str) -> list[dict[str, Any]]:
    """The workflows that an event submitted."""
    return cluster.workflows(f"argosy/event={event}")


def parameters(workflow: Mapping[str, Any]) -> dict[str, str]:
    return {each["name"]: each["value"] for each in workflow["spec"]["arguments"]["parameters"]}


def one_more(cluster: Cluster, event: str, before: int) -> dict[str, Any]:
    """The workflow that came to the `before` others; it is the only one."""
    cluster.until(lambda: len(submitted(cluster, event)) > before, f"a workflow of {event}")
    time.sleep(QUIET_S)
    found = submitted(cluster, event)
    assert len(found) == before + 1
    return found[-1]


def test_a_webhook_submits_once_for_an_id_and_nothing_for_a_bad_token(eventful: Cluster) -> None:
    assert post(eventful, "hook", {"id": 7, "overrides": "data.seed=2", "preset": "demo"})[0] == 200
    assert post(eventful, "hook", {"id": 7, "overrides": "data.seed=3"})[0] == 200  # once more the same event
    first = one_more(eventful, "hook", 0)
    assert parameters(first) == {**ONLY, "overrides": "data.seed=2"}  # not the preset, which it may not set
    assert first["spec"]["workflowTemplateRef"] == {"name": "lifecycle"}
    assert eventful.wait(first["metadata"]["name"])["status"]["phase"] == "Succeeded"
    assert post(eventful, "hook", {"id": 8}, "another token")[0] == 401
    assert post(eventful, "hook", {"id": 9})[0] == 200
    assert parameters(one_more(eventful, "hook", 1))["overrides"] == ""


def test_a_push_to_the_branch_submits_once_and_only_signed(eventful: Cluster) -> None:
    def push(branch: str, commit: str, secret: str = TOKEN) -> int:
        body = {"ref": f"refs/heads/{branch}", "before": "0" * 40, "after": commit}
        signature = hmac.new(secret.encode(), json.dumps(body).encode(), hashlib.sha256).hexdigest()
        return post(eventful, "push", body, **{"X-Hub-Signature-256": f"sha256={signature}", "X-GitHub-Event": "push",
                                               "X-GitHub-Delivery": commit})[0]  # fmt: skip

    assert push("main", "a" * 40, "a wrong secret") == 400
    assert push("other", "b" * 40) == 200
    assert [push("main", "c" * 40) for _ in range(2)] == [200, 200]
    assert parameters(one_more(eventful, "push", 0)) == ONLY


def test_a_file_a_checkpoint_and_a_moved_alias_submit(eventful: Cluster) -> None:
    from workflows.stored.events import ALIASES, CHECKPOINTS, note_event

    root = Path(eventful.profile.storage.node_directory)
    for name in ("new.jsonl", "new.txt", "a,b.jsonl"):  # the last one would be two values of a field
        (root / "incoming" / name).write_text("{}\n")
    for name in ("pretrain-0123456789ab", "sft-0123456789ab", "pretrain-0123456789ab"):
        note_event(root, CHECKPOINTS, name, {})
    for alias in ("reference", "other"):
        note_event(root, ALIASES, f"demo@{alias}@sft/final-2026", {})
    assert parameters(one_more(eventful, "arrived", 0))["overrides"] == "data.suites=new.jsonl"
    assert one_more(eventful, "trained", 0)["spec"]["workflowTemplateRef"] == {"name": "evaluate"}
    assert parameters(one_more(eventful, "moved", 0)) == ONLY


def test_a_new_object_of_a_bucket_submits_once(eventful: Cluster) -> None:
    import s3fs

    if not os.environ.get(MINIO):
        pytest.skip(f"{MINIO} names no MinIO")
    bucket = s3fs.S3FileSystem(key="minioadmin", secret="minioadmin", endpoint_url=f"http://{os.environ[MINIO]}")
    for name in ("one.txt", "day/two.jsonl", "day/two.jsonl"):
        bucket.pipe(f"events/{name}", b"{}\n")
    assert parameters(one_more(eventful, "object", 0))["overrides"] == "a=day/two.jsonl"


def test_the_sensor_may_create_workflows_and_nothing_else(eventful: Cluster) -> None:
    assert eventful.may("argosy-sensor", "create", "workflows", GROUP)
    assert not any(eventful.may("argosy-sensor", *right) for right in (
        ("delete", "workflows", GROUP), ("list", "workflows", GROUP), ("get", "secrets"), ("create", "pods"),
        ("patch", "workflowtemplates", GROUP)))  # fmt: skip
