"""What a check is: a function that looks at a cluster and says what it found, and how to mend what is wrong."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Literal

from workflows.argo.client_http import ApiError, Json, Transport
from workflows.argo.profile import Profile


@dataclass(frozen=True)
class Found:
    """A line: `ok`, `warn` (works, or could not be looked at), `FAIL` (workflows will not work)."""

    state: Literal["ok", "warn", "FAIL"]
    what: str
    mend: str = ""


@dataclass(frozen=True)
class Cluster:
    """What a check looks at.

    Attributes:
        file: what --profile would be given, for commands that mend.
        deep: whether pods may be started.
    """

    api: Transport
    namespace: str
    profile: Profile
    file: str
    deep: bool = False

    def get(self, path: str, **query: str) -> Json | None:
        """An object; None where there is none. Raises ApiError."""
        try:
            return self.api.ask("GET", path, query=query)
        except ApiError as error:
            if error.status == 404:
                return None
            raise

    def core(self, kind: str, name: str) -> Json | None:
        """An object of the namespace, such as core("configmaps", "x")."""
        return self.get(f"/api/v1/namespaces/{self.namespace}/{kind}/{name}")

    @property
    def install(self) -> str:
        """The commands that install what we bring."""
        if self.namespace != self.profile.namespace:  # its manifests would go elsewhere, over what is there
            return (f"the profile {self.profile.name} is of namespace {self.profile.namespace}: write a profile with "
                    f"'namespace: {self.namespace}' and give it as --profile FILE, or leave out --namespace")
        return f"argosy manifests --profile {self.file} --out DIR && kubectl apply -k DIR/{self.profile.name}"


@dataclass(frozen=True)
class Check:
    """`look` is given `limit_s` seconds. With `pods` it starts some, and runs with --deep alone."""

    name: str
    look: Callable[[Cluster], Iterator[Found]]
    order: int
    limit_s: float = 45.0
    pods: bool = False


def containers(deployment: dict[str, Any]) -> list[dict[str, Any]]:
    """Of a Deployment's pods."""
    found: list[dict[str, Any]] = deployment["spec"]["template"]["spec"]["containers"]
    return found
