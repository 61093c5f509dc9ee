"""The two ways to a cluster's workflows: the Kubernetes API, by the kubeconfig or a pod's own account, and an Argo
server's REST API, with a token."""

import contextlib
import json
import os
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

from argosy.core.errors import InputError
from argosy.core.store.files import parse_object
from workflows.argo.client.api import (
    DEFAULT_NAMESPACE,
    FROM_PLAN,
    PIPELINE,
    ApiError,
    ArgoClient,
    Transport,
    same_again,
)
from workflows.argo.client.view import Json, pod_name, view
from workflows.argo.profile.profile import config_map

HINT = "set KUBECONFIG to a file that is there, or --context"
OR_SERVER = f"{HINT}, or --server URL of an Argo server"
GROUP = "/apis/argoproj.io/v1alpha1/namespaces"
METADATA_ALONE = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
MERGE = "application/merge-patch+json"
LOGS = "main-logs"  # artifact that `archiveLogs` makes of each pod's log


def connect(namespace: str = "", context: str = "", server: str = "", *, insecure: bool = False) -> ArgoClient:
    """Connect by `server`, else the kubeconfig's `context`, else ARGO_SERVER, else the kubeconfig.

    Raises InputError: no way there is given, or a wrong one."""
    if server and context:
        raise InputError("--server and --context are two ways to a cluster: give one")
    if server := server or ("" if context else os.environ.get("ARGO_SERVER", "")):
        return ServerClient(server, namespace or DEFAULT_NAMESPACE, insecure=insecure)
    transport = KubernetesTransport(context, insecure=insecure)
    return KubernetesClient(transport, namespace or transport.namespace or DEFAULT_NAMESPACE)


def load_access(settings: Any, context: str, hint: str) -> str:
    """Fill `settings` (a kubernetes.client.Configuration) from the kubeconfig, or from a pod's own account.

    Args:
        hint: what errors say to do.

    Returns:
        The context's namespace; empty where it names none.

    Raises:
        InputError: there is neither, the file is broken, or has no such context."""
    import yaml
    from kubernetes import config

    file = os.environ.get("KUBECONFIG") or "~/.kube/config"  # the package reads it once, when imported
    try:
        try:
            contexts, current = config.list_kube_config_contexts(file)
        except config.ConfigException:
            if not context:
                with contextlib.suppress(config.ConfigException):  # no pod: then the kubeconfig was meant
                    config.load_incluster_config(settings)
                    return ""
            raise
        names = {each["name"]: each for each in contexts}
        if context and context not in names:
            raise InputError(f"--context is {context!r}, allowed: {', '.join(sorted(names))}")
        config.load_kube_config(file, context=context or None, client_configuration=settings)
        return str((names[context] if context else current)["context"].get("namespace") or "")
    except config.ConfigException as error:
        raise InputError(f"no cluster: the kubeconfig {file} names none, or is not there ({str(error).rstrip('.')}); "
                         f"{hint}") from None
    except (yaml.YAMLError, AttributeError, KeyError, TypeError, ValueError, OSError) as error:
        raise InputError(f"the kubeconfig {file} is broken: {type(error).__name__}: {error}; 'kubectl config view' "
                         f"tells more; {hint}") from None


class KubernetesTransport(Transport):
    """The API server. The `kubernetes` package knows the kubeconfig's many ways to log in.

    Attributes:
        namespace: of the context; empty where it names none."""

    def __init__(self, context: str = "", *, insecure: bool = False, hint: str = OR_SERVER) -> None:
        from kubernetes import client

        settings = client.Configuration()
        self.namespace = load_access(settings, context, hint)
        if insecure:
            settings.verify_ssl = False
        super().__init__(settings, f"the cluster at {settings.host}")


class KubernetesClient(ArgoClient):
    """Workflows as custom resources; needs no Argo server."""

    def __init__(self, transport: Transport, namespace: str) -> None:
        place = f"{GROUP}/{namespace}"
        super().__init__(transport, namespace, f"{place}/workflows", f"{place}/workflowtemplates")
        self._core = f"/api/v1/namespaces/{namespace}"

    def _listed(self) -> Json:
        query = {"labelSelector": PIPELINE}
        return self.transport.ask("GET", self._workflows, query=query, accept=METADATA_ALONE)

    def submit(self, workflow: Json) -> Json:
        return self.transport.ask("POST", self._workflows, workflow)

    def log(self, workflow: Json, node: Json, *, follow: bool, last: int = 0) -> Iterator[bytes]:
        query = {"container": "main", "follow": "true" if follow else "false"}
        query |= {"tailLines": str(last)} if last else {}
        return self.transport.stream(f"{self._core}/pods/{pod_name(workflow, node)}/log", query, follow=follow)

    def shut_down(self, name: str, strategy: str) -> None:
        """Set `spec.shutdown`, as `argo stop` and `argo terminate` do."""
        self.transport.ask("PATCH", f"{self._workflows}/{name}", {"spec": {"shutdown": strategy}}, kind=MERGE)

    def retry(self, workflow: Json) -> Json:
        """Submit the same again: the plan skips finished steps."""
        return self.submit(same_again(workflow))

    def has_namespace(self) -> bool:
        """Ask for it; taken for granted where one may not ask."""
        try:
            self.transport.ask("GET", self._core)
        except ApiError as error:
            return error.status != 404
        return True

    def profile(self, name: str) -> str | None:
        """Read the ConfigMap of `argosy manifests`."""
        try:
            data = self.transport.ask("GET", f"{self._core}/configmaps/{config_map(name)}").get("data") or {}
        except ApiError as error:
            if error.passing:
                raise
            return "" if error.status == 404 else None
        return str(data.get(f"{name}.yaml") or "")


class ServerTransport(Transport):
    """An Argo server's REST API, told apart from a UI or a proxy that answers in its place."""

    def __init__(self, server: str, *, insecure: bool) -> None:
        from kubernetes import client

        # ARGO_SERVER is `host:port` for Argo's own CLI; ARGO_SECURE=false makes that plain http.
        scheme = "" if "://" in server else f"{'http' if os.environ.get('ARGO_SECURE') == 'false' else 'https'}://"
        parts = urlsplit(scheme + server)
        if parts.scheme not in ("http", "https") or not parts.netloc:
            raise InputError(f"the server is {server!r}, allowed: a URL such as https://argo.example.com")
        settings = client.Configuration(host=parts.geturl().rstrip("/"))
        settings.verify_ssl = not (insecure or os.environ.get("ARGO_INSECURE_SKIP_VERIFY", "") == "true")
        if token := os.environ.get("ARGO_TOKEN", ""):
            whole = token.lower().startswith(("bearer ", "basic "))  # as the Argo UI shows it
            settings.api_key["authorization"] = token if whole else f"Bearer {token}"
        super().__init__(settings, f"the Argo server {server}")

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
        place = "/api/v1/workflow"
        super().__init__(ServerTransport(server, insecure=insecure), namespace, f"{place}s/{namespace}",
                         f"{place}-templates/{namespace}")  # fmt: skip

    def _listed(self) -> Json:
        query = {"listOptions.labelSelector": PIPELINE, "fields": "items.metadata"}
        return self.transport.ask("GET", self._workflows, query=query)

    def submit(self, workflow: Json) -> Json:
        return self.transport.ask("POST", self._workflows, {"workflow": workflow})

    def log(self, workflow: Json, node: Json, *, follow: bool, last: int = 0) -> Iterator[bytes]:
        """Stream the log of the node's pod, or the archived one of a pod that is gone."""
        name = workflow["metadata"]["name"]
        artifacts = (node.get("outputs") or {}).get("artifacts") or []
        if not follow and any(each.get("name") == LOGS for each in artifacts):
            place = f"/artifact-files/{self.namespace}/workflows/{name}"
            yield from self.transport.stream(f"{place}/{node['id']}/outputs/{LOGS}")
            return
        pod, silent = pod_name(workflow, node), True
        query = {"podName": pod, "logOptions.container": "main", "logOptions.follow": "true" if follow else "false"}
        query |= {"logOptions.tailLines": str(last)} if last else {}
        for line in self.transport.stream(f"{self._workflows}/{name}/log", query, follow=follow):
            if not line.strip():
                continue
            entry = json.loads(line)
            if "error" in entry:
                raise ApiError(int(entry["error"].get("http_code", 500)), str(entry["error"].get("message")))
            silent = False
            yield str(entry["result"].get("content", "")).encode() + b"\n"
        if silent:  # the server says nothing of a pod that is gone
            raise ApiError(404, f"the pod {pod} is gone, or has printed nothing")

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
