"""Workflows through the Kubernetes API, as the kubeconfig (or a pod's own account) reaches it."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from argosy.core.config.load import read_yaml
from argosy.core.errors import InputError
from workflows.argo.client.api import PIPELINE, ArgoClient, same_again
from workflows.argo.client.transport import ApiError, Json, Transport
from workflows.argo.profile.profile import config_map

DEFAULT = "~/.kube/config"
HINT = "set KUBECONFIG to a file that is there, or --context"
OR_SERVER = f"{HINT}, or --server URL of an Argo server"
GROUP = "/apis/argoproj.io/v1alpha1/namespaces"
METADATA_ALONE = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
MERGE = "application/merge-patch+json"


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

    try:
        return _load(config, settings, context)
    except config.ConfigException as error:
        given, there = os.environ.get("KUBECONFIG"), any(path.exists() for path in _files())
        looked = f"KUBECONFIG is {given}, {'which names none' if there else 'where no file is'}"
        if not given:
            looked = f"KUBECONFIG is not set, and {DEFAULT} {'names none' if there else 'is not there'}"
        raise InputError(f"no cluster: {looked} ({str(error).rstrip('.')}); {hint}") from None
    except (yaml.YAMLError, AttributeError, KeyError, TypeError, ValueError, OSError) as error:
        raise _broken(error, hint) from None


def _load(config: Any, settings: Any, context: str) -> str:
    file = os.environ.get("KUBECONFIG") or DEFAULT  # the package reads it once, when imported
    try:
        contexts, current = config.list_kube_config_contexts(file)
    except config.ConfigException as error:
        if context:
            raise
        try:
            config.load_incluster_config(settings)
        except config.ConfigException:  # no pod: then the kubeconfig was meant
            raise error from None
        return ""
    names = {each["name"]: each for each in contexts}
    if context and context not in names:
        raise InputError(f"--context is {context!r}, allowed: {', '.join(sorted(names))}")
    config.load_kube_config(file, context=context or None, client_configuration=settings)
    chosen = names[context] if context else current
    return str(chosen["context"].get("namespace") or "")


def _files() -> list[Path]:
    given = os.environ.get("KUBECONFIG") or DEFAULT
    return [Path(each).expanduser() for each in given.split(os.pathsep) if each]


def _broken(error: Exception, hint: str) -> InputError:
    """Name the first file that is no YAML or no mapping; kubectl's own parser may take one that ours calls broken."""
    files = [path for path in _files() if path.exists()]
    for path in files:
        try:
            data = read_yaml(path).data
        except InputError as wrong:
            return InputError(f"the kubeconfig cannot be read: {wrong}; {hint}")
        if not isinstance(data, dict):
            return InputError(f"the kubeconfig {path} is a {type(data).__name__}, allowed: a mapping with clusters, "
                              f"users and contexts, as 'kubectl config view' shows one; {hint}")
    names = ", ".join(map(str, files)) or "of this pod"
    return InputError(f"the kubeconfig {names} is broken: {type(error).__name__}: {error}; 'kubectl config view' tells "
                      f"more; {hint}")


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
        """Create the resource."""
        return self.transport.ask("POST", self._workflows, workflow)

    def log(self, workflow: Json, node: Json, *, follow: bool, last: int = 0) -> Iterator[bytes]:
        """Stream the log of the pod that carries the node's id."""
        pod = self._pod(workflow["metadata"]["name"], node["id"])
        query = {"container": "main", "follow": "true" if follow else "false"}
        query |= {"tailLines": str(last)} if last else {}
        return self.transport.stream(f"{self._core}/pods/{pod}/log", query, follow=follow)

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

    def _pod(self, workflow: str, node: str) -> str:
        query = {"labelSelector": f"workflows.argoproj.io/workflow={workflow}"}
        for pod in self.transport.ask("GET", f"{self._core}/pods", query=query).get("items") or []:
            if (pod["metadata"].get("annotations") or {}).get("workflows.argoproj.io/node-id") == node:
                return str(pod["metadata"]["name"])
        raise ApiError(404, f"the pod of {node} is gone")
