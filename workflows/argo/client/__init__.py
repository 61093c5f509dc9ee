"""Clients of a cluster: an interface, and the two ways there, kubeconfig and an Argo server."""

import os
from dataclasses import dataclass

from argosy.errors import InputError
from workflows.argo.client.api import DEFAULT_NAMESPACE, ArgoClient


@dataclass(frozen=True)
class Access:
    """The address of a cluster; empty fields come from the environment, else from the kubeconfig."""

    namespace: str = ""
    context: str = ""
    server: str = ""
    insecure: bool = False


def connect(access: Access) -> ArgoClient:
    """Connect by `access.server`, else the kubeconfig's `access.context`, else ARGO_SERVER, else the kubeconfig.

    Raises InputError: no way there is given, or a wrong one."""
    server = access.server or ("" if access.context else os.environ.get("ARGO_SERVER", ""))
    if access.server and access.context:
        raise InputError("--server and --context are two ways to a cluster: give one")
    if server:
        from workflows.argo.client.server import ServerClient

        return ServerClient(server, access.namespace or DEFAULT_NAMESPACE, insecure=access.insecure)
    from workflows.argo.client.kubernetes import KubernetesClient, KubernetesTransport

    transport = KubernetesTransport(access.context, insecure=access.insecure)
    return KubernetesClient(transport, access.namespace or transport.namespace or DEFAULT_NAMESPACE)
