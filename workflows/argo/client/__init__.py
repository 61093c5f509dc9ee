"""Clients of a cluster: an interface, and the two ways there, kubeconfig and an Argo server."""

import os

from argosy.core.errors import InputError
from workflows.argo.client.api import DEFAULT_NAMESPACE, ArgoClient


def connect(namespace: str = "", context: str = "", server: str = "", *, insecure: bool = False) -> ArgoClient:
    """Connect by `server`, else the kubeconfig's `context`, else ARGO_SERVER, else the kubeconfig.

    Raises InputError: no way there is given, or a wrong one."""
    if server and context:
        raise InputError("--server and --context are two ways to a cluster: give one")
    if server := server or ("" if context else os.environ.get("ARGO_SERVER", "")):
        from workflows.argo.client.server import ServerClient

        return ServerClient(server, namespace or DEFAULT_NAMESPACE, insecure=insecure)
    from workflows.argo.client.kubernetes import KubernetesClient, KubernetesTransport

    transport = KubernetesTransport(context, insecure=insecure)
    return KubernetesClient(transport, namespace or transport.namespace or DEFAULT_NAMESPACE)
