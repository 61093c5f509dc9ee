"""Workflows through an Argo server: its REST API, with a token."""

import json
import os
from collections.abc import Iterator

from argosy.core.store.files import parse_object
from workflows.argo.client.api import FROM_PLAN, PIPELINE, ArgoClient
from workflows.argo.client.transport import ApiError, HttpTransport, Json
from workflows.argo.client.unit import pod_name
from workflows.argo.client.view import view

LOGS = "main-logs"  # artifact that `archiveLogs` makes of each pod's log


class ServerTransport(HttpTransport):
    """An Argo server's REST API, told apart from a UI or a proxy that answers in its place."""

    def foreign(self, path: str, gave: str) -> ApiError:
        """Make the error for a server that is not Argo's, or is served below another path."""
        return ApiError(400, f"{self.where} does not answer as an Argo server does: it gave {gave} at {path}; give the "
                             "URL below which Argo's UI and its /api are, such as https://argo.example.com or "
                             "https://example.com/argo, or leave out --server (and ARGO_SERVER) to use the kubeconfig")

    def refusal(self, path: str, status: int, answer: bytes) -> ApiError:
        """Tell Argo's errors, which have gRPC's code, from others; those of a proxy for Argo stay as they are."""
        said = parse_object(answer)  # {"code": 5, "message": "..."} of Argo, `Status` of Kubernetes
        if said.get("kind") == "Status":
            return self.foreign(path, f"HTTP status {status} with the words of Kubernetes' own API")
        if status in (400, 404, 405, 501) and not isinstance(said.get("code"), int):
            return self.foreign(path, f"HTTP status {status} without a message of Argo's")
        return super().refusal(path, status, answer)


class ServerClient(ArgoClient):
    """The API that the Argo UI uses. It reads workflows from the archive too, where there is one."""

    def __init__(self, server: str, namespace: str, *, insecure: bool = False) -> None:
        insecure = insecure or os.environ.get("ARGO_INSECURE_SKIP_VERIFY", "") == "true"
        token = os.environ.get("ARGO_TOKEN", "")
        # ARGO_SERVER is `host:port` for Argo's own CLI; ARGO_SECURE=false makes that plain http.
        scheme = "" if "://" in server else f"{'http' if os.environ.get('ARGO_SECURE') == 'false' else 'https'}://"
        transport = ServerTransport(scheme + server, token, insecure=insecure, where=f"the Argo server {server}")
        place = "/api/v1/workflow"
        super().__init__(transport, namespace, f"{place}s/{namespace}", f"{place}-templates/{namespace}")

    def _listed(self) -> Json:
        query = {"listOptions.labelSelector": PIPELINE, "fields": "items.metadata"}
        return self.transport.ask("GET", self._workflows, query=query)

    def submit(self, workflow: Json) -> Json:
        """Create it."""
        return self.transport.ask("POST", self._workflows, {"workflow": workflow})

    def log(self, workflow: Json, node: Json, *, follow: bool, last: int = 0) -> Iterator[bytes]:
        """Stream the log of the node's pod, or the archived one of a pod that is gone."""
        name = workflow["metadata"]["name"]
        artifacts = (node.get("outputs") or {}).get("artifacts") or []
        if not follow and any(each.get("name") == LOGS for each in artifacts):
            return self.transport.stream(
                f"/artifact-files/{self.namespace}/workflows/{name}/{node['id']}/outputs/{LOGS}"
            )
        return self._pod_log(name, pod_name(workflow, node), follow, last)

    def shut_down(self, name: str, strategy: str) -> None:
        """Stop or terminate, as its buttons do."""
        self.transport.ask("PUT", f"{self._workflows}/{name}/{strategy.lower()}", {})

    def retry(self, workflow: Json) -> Json:
        """Continue the same workflow: finished nodes stay. Where that would start nothing, restart from its plan.

        Argo starts again what has a failed pod. A node whose pod ended well just as the workflow was stopped, and one
        that waited for a person, count as failed and have none: the workflow would fail again at once."""
        stuck = any(unit.state in ("failed", "stopped") and not unit.failed_pod for unit in view(workflow).units)
        body: Json = {"restartSuccessful": True, "nodeFieldSelector": FROM_PLAN} if stuck else {}
        return self.transport.ask("PUT", f"{self._workflows}/{workflow['metadata']['name']}/retry", body)

    def _pod_log(self, workflow: str, pod: str, follow: bool, last: int) -> Iterator[bytes]:
        """Read one line of JSON for each line of the log. The server says nothing of a pod that is gone."""
        query = {"podName": pod, "logOptions.container": "main", "logOptions.follow": "true" if follow else "false"}
        query |= {"logOptions.tailLines": str(last)} if last else {}
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
