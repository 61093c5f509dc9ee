"""What the command line asks of a cluster: an interface, and the two ways there: kubeconfig and an Argo server."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from argosy.config_explain import likely
from argosy.errors import InputError
from workflows.argo.client_http import ApiError, Json

PIPELINE = "argosy/pipeline"  # label of our workflows
PHASE = "workflows.argoproj.io/phase"
DEFAULT_NAMESPACE = "argosy"
MOST = 5  # workflows that a hint names


@dataclass(frozen=True)
class Summary:
    """A workflow in a list."""

    name: str
    pipeline: str
    phase: str
    created: str

    @classmethod
    def of(cls, metadata: Json) -> Summary:
        """From the object's metadata, whose labels say all of it."""
        labels = metadata.get("labels") or {}
        return cls(metadata["name"], labels.get(PIPELINE, ""), labels.get(PHASE, "Pending"),
                   metadata.get("creationTimestamp") or "")  # fmt: skip


class ArgoClient(ABC):
    """A namespace's workflows. Every method raises ApiError.

    Attributes:
        namespace: where workflows are.
        continues: whether `retry` goes on with the same workflow where it can, or always submits the same again.
    """

    namespace: str
    continues: bool

    @abstractmethod
    def submit(self, workflow: Json) -> Json:
        """Create a workflow."""

    @abstractmethod
    def get(self, name: str) -> Json:
        """The Workflow object, with its nodes."""

    @abstractmethod
    def list(self) -> list[Summary]:
        """Argosy's workflows, the newest first."""

    @abstractmethod
    def template(self, name: str) -> Json:
        """A WorkflowTemplate."""

    @abstractmethod
    def log(self, workflow: Json, node: Json, *, follow: bool) -> Iterator[bytes]:
        """What the pod of `node` printed, as it comes; with `follow` until it ends."""

    @abstractmethod
    def shut_down(self, name: str, strategy: str) -> None:
        """Stop (the exit handler still runs) or Terminate (it does not)."""

    @abstractmethod
    def retry(self, workflow: Json) -> Json:
        """Run what failed, or was stopped, again; returns the workflow that does."""

    def has_namespace(self) -> bool:
        """Whether the namespace exists; taken for granted where it cannot be asked for."""
        return True

    def profile(self, name: str) -> str | None:
        """YAML of a cluster profile that the namespace was given; "" where it was not, None where it is not known."""
        return None

    def some(self) -> Sequence[Summary]:
        """As `list`; raises InputError where there is none."""
        found = self.list()
        if not found:
            raise self.absent("workflow of Argosy", "'argosy submit' makes one")
        return found

    def find(self, name: str = "") -> Json:
        """The workflow `name`, or the newest one.

        Raises:
            InputError: there is none; names the nearest.
        """
        name = name or self.some()[0].name
        try:
            return self.get(name)
        except ApiError as error:
            if error.status != 404:
                raise
        known = [each.name for each in self.list()]
        raise self.absent(f"workflow {name!r}", likely(name, known, "the newest", MOST))

    def absent(self, what: str, hint: str) -> InputError:
        """`what` is not in the namespace, with a `hint` of what to do; or the namespace itself is not there."""
        if not self.has_namespace():
            return InputError(f"there is no namespace {self.namespace!r}: name another --namespace, or make it "
                              f"(kubectl create namespace {self.namespace}) and let 'argosy doctor' tell what it needs")
        return InputError(f"there is no {what} in namespace {self.namespace}" + (f"; {hint}" if hint else ""))


@dataclass(frozen=True)
class Access:
    """How to reach a cluster; empty fields: from the environment, else the kubeconfig's."""

    namespace: str = ""
    context: str = ""
    server: str = ""
    insecure: bool = False


def connect(access: Access) -> ArgoClient:
    """By `access.server`, else the kubeconfig's `access.context`, else ARGO_SERVER, else the kubeconfig.

    Raises:
        InputError: no way there is given, or a wrong one.
    """
    server = access.server or ("" if access.context else os.environ.get("ARGO_SERVER", ""))
    if access.server and access.context:
        raise InputError("--server and --context are two ways to a cluster: give one")
    if server:
        from workflows.argo.client_server import ServerClient

        return ServerClient(server, access.namespace or DEFAULT_NAMESPACE, insecure=access.insecure)
    from workflows.argo.client_kubernetes import KubernetesClient, KubernetesTransport

    transport = KubernetesTransport(access.context, insecure=access.insecure)
    return KubernetesClient(transport, access.namespace or transport.namespace or DEFAULT_NAMESPACE)
