"""What the cluster tests do to a cluster, through the Kubernetes API alone."""

import contextlib
import time
from collections.abc import Callable, Iterable, Iterator
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import Any

import pytest
import yaml

from workflows.argo.client.api import ArgoClient, connect
from workflows.argo.client.submission import submission
from workflows.argo.manifests.documents import manifests
from workflows.argo.pod.finish import Reconciler
from workflows.argo.profile.pods import mounts, volumes
from workflows.argo.profile.profile import Profile

GROUP, VERSION = "argoproj.io", "v1alpha1"
PATIENCE_S = 900
COMPONENTS = Path(__file__).parents[2] / "argo-install/components"


class Cluster:
    """The cluster of the current kubeconfig, and the namespace of the profile."""

    def __init__(self, profile: Profile) -> None:
        self.profile, self.namespace = profile, profile.namespace

    def missing(self) -> str:
        """Why cluster tests cannot run; empty: they can."""
        from kubernetes import client, config

        try:
            config.load_kube_config()
            client.VersionApi().get_code(_request_timeout=5)
            names = definitions()
        except Exception as error:
            return f"{type(error).__name__}: {str(error).splitlines()[0]}"
        return "" if f"workflows.{GROUP}" in names else "Argo Workflows is not installed"

    def install(self) -> None:
        """Apply the profile's manifests."""
        self.apply(chain.from_iterable(manifests(self.profile).values()))

    def apply(self, documents: Iterable[dict[str, Any]]) -> None:
        """Apply manifests."""
        from kubernetes import client, dynamic

        api = dynamic.DynamicClient(client.ApiClient())
        for document in documents:
            resource = api.resources.get(api_version=document["apiVersion"], kind=document["kind"])
            api.server_side_apply(resource, body=document, name=document["metadata"]["name"], namespace=self.namespace,
                                  field_manager="argosy-tests", force_conflicts=True)

    @contextlib.contextmanager
    def changed(self, name: str, **changes: Any) -> Iterator["Cluster"]:
        """The cluster with a changed profile of this name. Its own manifests are back afterwards."""
        changed = Cluster(self.profile.model_copy(update={"name": name, **changes}))
        changed.install()
        yield changed
        self.install()

    def submit(self, **parameters: str) -> str:
        """Submit `lifecycle` with the tiny preset; returns the workflow's name."""
        given = {"preset": "tiny", **{name.replace("_", "-"): value for name, value in parameters.items()}}
        return str(self.client.submit(submission("lifecycle", self.namespace, given))["metadata"]["name"])

    @cached_property
    def client(self) -> ArgoClient:
        return connect(self.namespace)

    def get(self, name: str) -> dict[str, Any]:
        """The Workflow."""
        return self.client.get(name)

    def patch(self, name: str, body: dict[str, Any]) -> None:
        """Change the Workflow."""
        self.custom().patch_namespaced_custom_object(GROUP, VERSION, self.namespace, "workflows", name, body)

    def delete(self, name: str) -> None:
        """Delete the Workflow."""
        self.custom().delete_namespaced_custom_object(GROUP, VERSION, self.namespace, "workflows", name)

    def workflows(self, labels: str) -> list[dict[str, Any]]:
        """The Workflows with these labels, the oldest first."""
        found = self.custom().list_namespaced_custom_object(GROUP, VERSION, self.namespace, "workflows",
                                                            label_selector=labels)["items"]
        return sorted(found, key=lambda each: str(each["metadata"]["creationTimestamp"]))

    def phase(self, name: str) -> str:
        """Of the Workflow."""
        return str(self.get(name).get("status", {}).get("phase", ""))

    def wait(self, name: str) -> dict[str, Any]:
        """The Workflow once it has ended."""
        self.until(lambda: self.phase(name) in ("Succeeded", "Failed", "Error"), f"the end of {name}")
        return self.get(name)

    def until(self, true: Callable[[], object], what: str) -> None:
        """Wait until `true()`."""
        deadline = time.monotonic() + PATIENCE_S
        while not true():
            if time.monotonic() > deadline:
                raise AssertionError(f"waited {PATIENCE_S} s for {what}")
            time.sleep(0.5)

    def pods(self, workflow: str) -> list[Any]:
        """Pods of the Workflow that are there."""
        return self.labelled(f"workflows.argoproj.io/workflow={workflow}")

    def labelled(self, selector: str) -> list[Any]:
        """Pods with these labels."""
        from kubernetes import client

        return list(client.CoreV1Api().list_namespaced_pod(self.namespace, label_selector=selector).items)

    def running(self, workflow: str, task: str) -> str:
        """Name of the running pod of a task; waits for it."""
        found: list[str] = []

        def look() -> bool:
            for pod in self.pods(workflow):
                node = (pod.metadata.annotations or {}).get("workflows.argoproj.io/node-name", "")
                if f".{task}(" in node and pod.status.phase == "Running":
                    found.append(pod.metadata.name)
            return bool(found)

        self.until(look, f"a running pod of {task}")
        return found[0]

    def delete_pod(self, name: str, namespace: str | None = None) -> None:
        """At once."""
        from kubernetes import client

        client.CoreV1Api().delete_namespaced_pod(name, namespace or self.namespace, grace_period_seconds=0)

    def delete_pods_of(self, *labels: str) -> None:
        """Delete the pods with one of the labels, in any namespace, as a controller's. Skips where there are none."""
        from kubernetes import client

        for label in labels:
            if not (found := client.CoreV1Api().list_pod_for_all_namespaces(label_selector=label).items):
                pytest.skip(f"no pods with {label} are to be seen")
            for pod in found:
                self.delete_pod(pod.metadata.name, pod.metadata.namespace)

    def once(self, component: str) -> str:
        """Run the pod of a component, which loops otherwise, once, with the component's own rights; returns its
        output."""
        from kubernetes import client

        core, profile, name = client.CoreV1Api(), self.profile, f"{component}-once"
        *rights, deployment = yaml.safe_load_all((COMPONENTS / f"{component}/{component}.yaml").read_text())
        for each in rights:
            for place in (each["metadata"], *each.get("subjects", ())):
                place |= {"namespace": self.namespace} if "namespace" in place else {}
        self.apply(rights)
        spec = deployment["spec"]["template"]["spec"]
        [main] = spec["containers"]
        main |= {"image": profile.images.of("data"), "imagePullPolicy": profile.images.pull_policy,
                 "args": [*main["args"], "--once"], "volumeMounts": mounts(profile)}
        main["env"] = [{**each, "value": profile.name} if each["name"] == "PROFILE" else each for each in main["env"]
                       if each["name"] != "MLFLOW_TRACKING_URI"]  # fmt: skip
        spec |= {"restartPolicy": "Never", "volumes": volumes(profile, profile.name)}
        with contextlib.suppress(client.ApiException):
            core.delete_namespaced_pod(name, self.namespace, grace_period_seconds=0)
        self.until(lambda: name not in [pod.metadata.name for pod in self.labelled("")], "the end of the last one")
        core.create_namespaced_pod(self.namespace, {"metadata": {"name": name}, "spec": spec})
        self.until(lambda: core.read_namespaced_pod(name, self.namespace).status.phase in ("Succeeded", "Failed"), name)
        return str(core.read_namespaced_pod_log(name, self.namespace, _preload_content=False).data.decode())

    def may(self, account: str, verb: str, resource: str, group: str = "") -> bool:
        """Whether a service account of the namespace has a right."""
        from kubernetes import client

        asked = {"namespace": self.namespace, "verb": verb, "group": group, "resource": resource}
        review = {"spec": {"user": f"system:serviceaccount:{self.namespace}:{account}", "resourceAttributes": asked}}
        return bool(client.AuthorizationV1Api().create_subject_access_review(review).status.allowed)

    def reconcile(self) -> None:
        """Run the reconciler once."""
        store = Path(self.profile.storage.node_directory)
        assert Reconciler(store, self.client, 1e6, self.profile.cluster).sweep() == 0

    def custom(self) -> Any:
        """The API of custom resources."""
        from kubernetes import client

        return client.CustomObjectsApi()


def definitions() -> list[str]:
    """Names of the kinds that the cluster has beside Kubernetes' own."""
    from kubernetes import client

    return [each.metadata.name for each in client.ApiextensionsV1Api().list_custom_resource_definition().items]


def pod_nodes(workflow: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Nodes of a Workflow that had a pod."""
    for node in (workflow.get("status") or {}).get("nodes", {}).values():
        if node["type"] == "Pod":
            yield node
