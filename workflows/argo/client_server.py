"""Workflows through an Argo server: its REST API, with a token."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator

from workflows.argo.client import PIPELINE, ArgoClient, Summary
from workflows.argo.client_http import ApiError, HttpTransport, Json
from workflows.argo.client_submission import FROM_PLAN
from workflows.argo.client_unit import pod_name
from workflows.argo.client_workflow import view

LOGS = "main-logs"  # artifact that `archiveLogs` makes of each pod's log


class ServerTransport(HttpTransport):
    """An Argo server's REST API. What answers in another way, such as a UI or a proxy, is told from it."""

    def foreign(self, path: str, gave: str) -> ApiError:
        """It is no Argo server, or one that is served below another path."""
        return ApiError(400, f"{self.where} does not answer as an Argo server does: it gave {gave} at {path}; give the "
                             "URL below which Argo's UI and its /api are, such as https://argo.example.com or "
                             "https://example.com/argo, or leave out --server (and ARGO_SERVER) to use the kubeconfig")

    def refusal(self, path: str, status: int, answer: bytes) -> ApiError:
        """Argo's own errors have gRPC's code; of others, those that a proxy may give for Argo are left as they are."""
        said = _error(answer)
        if said.get("kind") == "Status":
            return self.foreign(path, f"HTTP status {status} with the words of Kubernetes' own API")
        if status in (400, 404, 405, 501) and not isinstance(said.get("code"), int):
            return self.foreign(path, f"HTTP status {status} without a message of Argo's")
        return super().refusal(path, status, answer)


class ServerClient(ArgoClient):
    """What the Argo UI uses. Reads workflows from the archive too, where there is one."""

    continues = True

    def __init__(self, server: str, namespace: str, *, insecure: bool = False) -> None:
        insecure = insecure or os.environ.get("ARGO_INSECURE_SKIP_VERIFY", "") == "true"
        token = os.environ.get("ARGO_TOKEN", "")
        self.transport = ServerTransport(_url(server), token, insecure=insecure, where=f"the Argo server {server}")
        self.namespace = namespace
        self._workflows = f"/api/v1/workflows/{namespace}"

    def submit(self, workflow: Json) -> Json:
        """Create it."""
        return self.transport.ask("POST", self._workflows, {"workflow": workflow})

    def get(self, name: str) -> Json:
        """Read it."""
        return self._object(f"{self._workflows}/{name}")

    def list(self) -> list[Summary]:
        """By their metadata alone: a workflow may weigh a megabyte."""
        query = {"listOptions.labelSelector": PIPELINE, "fields": "items.metadata"}
        found = self.transport.ask("GET", self._workflows, query=query)
        every = [Summary.of(each["metadata"]) for each in found.get("items") or []]
        return sorted(every, key=lambda each: (each.created, each.name), reverse=True)

    def template(self, name: str) -> Json:
        """Read it."""
        return self._object(f"/api/v1/workflow-templates/{self.namespace}/{name}")

    def log(self, workflow: Json, node: Json, *, follow: bool) -> Iterator[bytes]:
        """Of the node's pod, or the archived one of a pod that is gone."""
        name = workflow["metadata"]["name"]
        artifacts = (node.get("outputs") or {}).get("artifacts") or []
        if not follow and any(each.get("name") == LOGS for each in artifacts):
            return self.transport.stream(
                f"/artifact-files/{self.namespace}/workflows/{name}/{node['id']}/outputs/{LOGS}"
            )
        return self._pod_log(name, pod_name(workflow, node), follow)

    def shut_down(self, name: str, strategy: str) -> None:
        """What its Stop and Terminate buttons do."""
        self.transport.ask("PUT", f"{self._workflows}/{name}/{strategy.lower()}", {})

    def retry(self, workflow: Json) -> Json:
        """The same workflow goes on: what succeeded stays. Where that would start nothing, it goes on from its plan.

        Argo starts again what has a failed pod. A node whose pod ended well just as the workflow was stopped, and one
        that waited for a person, count as failed and have none: the workflow would fail again at once.
        """
        stuck = any(unit.state in ("failed", "stopped") and not unit.failed_pod for unit in view(workflow).units)
        body: Json = {"restartSuccessful": True, "nodeFieldSelector": FROM_PLAN} if stuck else {}
        return self.transport.ask("PUT", f"{self._workflows}/{workflow['metadata']['name']}/retry", body)

    def _object(self, path: str) -> Json:
        found = self.transport.ask("GET", path)
        if "metadata" not in found or "spec" not in found:
            raise self.transport.foreign(path, "JSON of another kind")
        return found

    def _pod_log(self, workflow: str, pod: str, follow: bool) -> Iterator[bytes]:
        """A line of JSON for each line of the log. The server says nothing at all of a pod that is gone."""
        query = {"podName": pod, "logOptions.container": "main", "logOptions.follow": "true" if follow else "false"}
        silent = True
        for line in self.transport.stream(f"{self._workflows}/{workflow}/log", query, follow=follow):
            if not line.strip():
                continue
            entry = json.loads(line)
            if "error" in entry:
                raise ApiError(int(entry["error"].get("http_code", 500)), str(entry["error"].get("message")))
            silent = False
            yield str(entry["result"].get("content", "")).encode() + b"\n"
        if silent:
            raise ApiError(404, f"the pod {pod} is gone, or has printed nothing")


def _error(answer: bytes) -> Json:
    """Of Argo, {"code": 5, "message": "..."} with gRPC's code; of Kubernetes, an object `Status`; {} of others."""
    try:
        found = json.loads(answer)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def _url(server: str) -> str:
    """ARGO_SERVER is `host:port` for Argo's own CLI; ARGO_SECURE=false makes that plain http."""
    if "://" in server:
        return server
    return f"{'http' if os.environ.get('ARGO_SECURE') == 'false' else 'https'}://{server}"
