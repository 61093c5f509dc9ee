"""Workflows through the Kubernetes API, as the kubeconfig (or a pod's own account) reaches it."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from typing import IO
from urllib.parse import urlencode

from workflows.argo.client import PIPELINE, ArgoClient, Summary
from workflows.argo.client_http import ApiError, Json, Transport, no_answer
from workflows.argo.client_submission import same_again
from workflows.argo.kubeconfig import load_access
from workflows.argo.profile_load import config_map

GROUP = "/apis/argoproj.io/v1alpha1/namespaces"
METADATA_ALONE = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
MERGE = "application/merge-patch+json"


class KubernetesTransport(Transport):
    """The API server. The `kubernetes` package knows the kubeconfig's many ways to log in.

    Attributes:
        namespace: of the context; empty where it names none.
    """

    def __init__(self, context: str = "", *, insecure: bool = False) -> None:
        from kubernetes import client  # type: ignore[import-untyped]  # here, since it takes a second

        settings = client.Configuration()
        self.namespace = load_access(settings, context)
        if insecure:
            settings.verify_ssl = False
        settings.retries = False  # whoever asks tries again
        self.where = f"the cluster at {settings.host}"
        self._api = client.ApiClient(settings)

    @contextlib.contextmanager
    def open(
        self, method: str, path: str, query: Mapping[str, str], body: Json | None, headers: Mapping[str, str],
        timeout: float | None,
    ) -> Iterator[tuple[Mapping[str, str], IO[bytes]]]:
        """See Transport."""
        import urllib3
        from kubernetes.client import ApiException  # type: ignore[import-untyped]

        path = path + ("?" + urlencode(query) if query else "")
        try:
            answer = self._api.call_api(
                path, method, body=body, header_params=dict(headers), auth_settings=["BearerToken"],
                _preload_content=False, _request_timeout=(10.0, timeout) if timeout else None,
            )  # fmt: skip
            try:
                yield answer.headers, answer
            finally:
                answer.close()
        except ApiException as error:
            if not error.status:
                raise no_answer(self.where, error.reason) from None
            said = (error.body or error.reason or "").encode()
            raise self.refusal(path, error.status, said) from None
        except (urllib3.exceptions.HTTPError, OSError) as error:
            raise no_answer(self.where, error) from None


class KubernetesClient(ArgoClient):
    """Workflows as custom resources; needs no Argo server."""

    continues = False

    def __init__(self, transport: Transport, namespace: str) -> None:
        self.transport, self.namespace = transport, namespace
        self._workflows = f"{GROUP}/{namespace}/workflows"
        self._core = f"/api/v1/namespaces/{namespace}"

    def submit(self, workflow: Json) -> Json:
        """Create it."""
        return self.transport.ask("POST", self._workflows, workflow)

    def get(self, name: str) -> Json:
        """Read it."""
        return self.transport.ask("GET", f"{self._workflows}/{name}")

    def list(self) -> list[Summary]:
        """By their metadata alone: a workflow may weigh a megabyte."""
        found = self.transport.ask("GET", self._workflows, query={"labelSelector": PIPELINE}, accept=METADATA_ALONE)
        every = [Summary.of(each["metadata"]) for each in found.get("items") or []]
        return sorted(every, key=lambda each: (each.created, each.name), reverse=True)

    def template(self, name: str) -> Json:
        """Read it."""
        return self.transport.ask("GET", f"{GROUP}/{self.namespace}/workflowtemplates/{name}")

    def log(self, workflow: Json, node: Json, *, follow: bool) -> Iterator[bytes]:
        """Of the pod that carries the node's id."""
        pod = self._pod(workflow["metadata"]["name"], node["id"])
        query = {"container": "main", "follow": "true" if follow else "false"}
        return self.transport.stream(f"{self._core}/pods/{pod}/log", query, follow=follow)

    def shut_down(self, name: str, strategy: str) -> None:
        """What `argo stop` and `argo terminate` do."""
        self.transport.ask("PATCH", f"{self._workflows}/{name}", {"spec": {"shutdown": strategy}}, kind=MERGE)

    def retry(self, workflow: Json) -> Json:
        """Submit the same again: what is done is skipped."""
        return self.submit(same_again(workflow))

    def has_namespace(self) -> bool:
        """Taken for granted where one may not ask."""
        try:
            self.transport.ask("GET", self._core)
        except ApiError as error:
            return error.status != 404
        return True

    def profile(self, name: str) -> str | None:
        """From the ConfigMap of `argosy manifests`."""
        try:
            data = self.transport.ask("GET", f"{self._core}/configmaps/{config_map(name)}").get("data") or {}
        except ApiError as error:
            if error.passing:
                raise
            return "" if error.status == 404 else None
        return str(data.get(f"{name}.yaml") or "")

    def _pod(self, workflow: str, node: str) -> str:
        query = {"labelSelector": f"workflows.argoproj.io/workflow={workflow}"}
        for pod in self.transport.ask("GET", f"{self._core}/pods", query=query).get("items") or []:
            if (pod["metadata"].get("annotations") or {}).get("workflows.argoproj.io/node-id") == node:
                return str(pod["metadata"]["name"])
        raise ApiError(404, f"the pod of {node} is gone")
