"""The served alias: a promotion rolls the pods under load without a failed request, and its undoing rolls them back."""

import asyncio
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import openai
import pytest
import yaml

from tests.cluster.cluster import COMPONENTS, Cluster
from tests.nightly_fixtures import train
from workflows.argo.manifests.serving import LABELS
from workflows.argo.pod.serving import CHECKPOINT, DEPLOYMENT, PORT
from workflows.argo.profile.settings import Placement, Serving
from workflows.cli import main

pytestmark = pytest.mark.cluster
KEY, AFTER = "a-key-of-the-cluster-tests", 24
SEED = "pretrain.seed=5"  # other weights
OF_POD = {"spec": {"containers": [{"name": "main", "image": "other"}]}}, {"metadata": {"labels": {"a": "b"}}}, {
    "metadata": {"annotations": {CHECKPOINT: "../x"}}}, {"metadata": {"annotations": {"a": "b"}}}  # fmt: skip
REFUSED = (*({"spec": {"template": each}} for each in OF_POD), {"spec": {"replicas": 3}},
           {"metadata": {"labels": {"a": "b"}}})  # fmt: skip
SMALL = Placement(cpu="100m", memory="2Gi", env={"ARGOSY_THREADS": "1", "OMP_NUM_THREADS": "1"})


@pytest.fixture
def served(cluster: Cluster, store: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Cluster]:
    """The cluster with the Deployment, and a store with two checkpoints of one model line; no alias is set."""
    from kubernetes import client

    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    train(store)
    train(store, SEED)
    client.CoreV1Api().create_namespaced_secret(cluster.namespace, {
        "metadata": {"name": DEPLOYMENT}, "stringData": {"keys": f"tests {KEY}\n"}})
    given = {"serving": Serving(model="tiny", drain_s=30), "stages": {"serve": SMALL}}
    found = Cluster(cluster.profile.model_copy(update=given))
    found.install()
    yield found
    for api, delete in ((client.AppsV1Api(), "deployment"), (client.CoreV1Api(), "service"),
                        (client.PolicyV1Api(), "pod_disruption_budget"), (client.CoreV1Api(), "secret")):
        getattr(api, f"delete_namespaced_{delete}")(DEPLOYMENT, cluster.namespace)
    found.until(lambda: not pods(found), "the pods' end")
    cluster.install()


def pods(cluster: Cluster) -> list[Any]:
    return cluster.labelled(",".join(f"{key}={value}" for key, value in LABELS.items()))


def move(cluster: Cluster, *what: str) -> None:
    """Move the alias as people do, and let the reconciler tell the Deployment."""
    store = Path(cluster.profile.storage.node_directory)
    assert main(["promote", *what, "--store", str(store)]) == 0
    for path in store.glob("*mlflow*"):  # another user's
        path.chmod(0o777)
    assert f"{DEPLOYMENT} rolls to pretrain-" in (said := cluster.once("reconciler")), said


def promote(cluster: Cluster, *what: str) -> None:
    """Move the alias; ends when only new pods are left."""
    from kubernetes import client

    before = {each.metadata.name for each in pods(cluster)}
    move(cluster, *what)

    def rolled() -> bool:
        status = client.AppsV1Api().read_namespaced_deployment_status(DEPLOYMENT, cluster.namespace).status
        there = {each.metadata.name for each in pods(cluster)}
        return status.available_replicas == status.updated_replicas == len(there) == 2 and not there & before

    cluster.until(rolled, "the roll")


def promote_broken(cluster: Cluster, checkpoint: Path) -> None:
    """Promote what does not load; once a pod has failed at it, undo that."""
    (checkpoint / "checkpoints/p100/model.safetensors").write_bytes(b"broken")
    move(cluster, str(checkpoint))
    cluster.until(lambda: any(status.restart_count for pod in pods(cluster)
                              for status in pod.status.container_statuses or ()), "a pod that fails")
    move(cluster, "--undo")
    cluster.until(lambda: len(pods(cluster)) == 2, "the end of the others")


def assert_held(cluster: Cluster) -> None:
    """Of the Deployment the reconciler may change the checkpoint, and nothing else."""
    from kubernetes import client

    cluster.apply(yaml.safe_load_all((COMPONENTS / "reconciler/rolls.yaml").read_text()))
    time.sleep(5)  # until the API server has read it
    account = f"system:serviceaccount:{cluster.namespace}:argosy-reconciler"
    apps = client.AppsV1Api(client.ApiClient(header_name="Impersonate-User", header_value=account))

    def patch(body: dict[str, Any]) -> None:
        apps.patch_namespaced_deployment(DEPLOYMENT, cluster.namespace, body, dry_run="All")

    patch({"spec": {"template": {"metadata": {"annotations": {CHECKPOINT: "pretrain-1/checkpoints/p100"}}}}})
    for body in REFUSED:
        with pytest.raises(client.ApiException, match="argosy-rolls"):
            patch(body)


@dataclass
class Load:
    """Clients that ask all the time, streamed and whole, over connections that they keep and over new ones."""

    url: str
    answers: list[str] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    ended: bool = False

    def client(self) -> openai.AsyncOpenAI:
        return openai.AsyncOpenAI(base_url=self.url, api_key=KEY, max_retries=0, timeout=120)

    async def ask(self, client: openai.AsyncOpenAI, *, stream: bool) -> str:
        found: Any = await client.completions.create(model="tiny", prompt="The river", temperature=0, max_tokens=40,
                                                     stream=stream)
        if not stream:
            return str(found.choices[0].text)
        parts = [part.choices[0] async for part in found]
        assert parts[-1].finish_reason in ("stop", "length")
        return "".join(part.text for part in parts)

    async def one(self, number: int) -> None:
        client = self.client()
        while not self.ended:
            if number % 3 == 0:  # a connection for each request
                await client.close()
                client = self.client()
            try:
                self.answers.append(await self.ask(client, stream=number % 2 == 0))
            except Exception as error:
                self.errors.append(f"client {number}: {type(error).__name__}: {error}")
                await asyncio.sleep(0.1)
        await client.close()

    async def during(self, work: Any, clients: int = 6) -> None:
        """Ask while `work()`, in a thread, goes on, and AFTER times more."""
        self.answers, self.errors, self.ended = [], [], False
        tasks = [asyncio.create_task(self.one(number)) for number in range(clients)]
        await asyncio.to_thread(work)
        enough = len(self.answers) + AFTER
        while len(self.answers) < enough and not self.errors:
            await asyncio.sleep(0.1)
        self.ended = True
        await asyncio.gather(*tasks)


def test_a_promotion_rolls_the_pods_under_load_and_its_undoing_rolls_them_back(served: Cluster) -> None:
    from kubernetes import client

    store = Path(served.profile.storage.node_directory)
    old, new = sorted((str(path) for path in store.glob("pretrain-*")), key=lambda path: Path(path).stat().st_mtime)
    for path in (store, *store.rglob("*")):
        path.chmod(0o777)
    promote(served, old)
    assert_held(served)
    address = client.CoreV1Api().read_namespaced_service(DEPLOYMENT, served.namespace).spec.cluster_ip
    load = Load(f"http://{address}:{PORT}/v1")
    first = asyncio.run(load.ask(load.client(), stream=False))
    answers, last = {first}, first
    for what in ((new,), ("--undo",)):
        asyncio.run(load.during(lambda what=what: promote(served, *what)))
        print(f"{what}: {len(load.answers)} requests, {len(load.errors)} failed")
        assert load.errors == []
        assert load.answers[0] == last != load.answers[-1]
        last = load.answers[-1]
        assert load.answers[-AFTER:] == [last] * AFTER
        answers |= {*load.answers}
    assert (last, len(answers)) == (first, 2)  # each answer is one model's, whole
    asyncio.run(load.during(lambda: promote_broken(served, Path(new))))
    assert (load.errors, {*load.answers}) == ([], {first})
