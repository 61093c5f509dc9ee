"""Findings of `argosy doctor`, and the cluster that its checks (checks.py) look at."""

from dataclasses import dataclass
from typing import Literal

from workflows.argo.client.api import ApiError, Transport
from workflows.argo.client.view import Json
from workflows.argo.profile.profile import Profile


@dataclass(frozen=True)
class Found:
    """A finding: `ok`, `warn` (works, or could not be looked at), `FAIL` (workflows will not work)."""

    state: Literal["ok", "warn", "FAIL"]
    what: str
    fix: str = ""


@dataclass(frozen=True)
class Cluster:
    """The cluster that a check looks at."""

    api: Transport
    namespace: str
    profile: Profile
    file: str
    """Value of --profile in the commands that fix a finding."""
    deep: bool = False
    """Whether pods may be started."""

    def get(self, path: str, accept: str = "application/json", **query: str) -> Json | None:
        """Return an object; None where there is none. Raises ApiError."""
        try:
            return self.api.ask("GET", path, query=query, accept=accept)
        except ApiError as error:
            if error.status == 404:
                return None
            raise

    def core(self, kind: str, name: str) -> Json | None:
        """Return an object of the namespace, such as core("configmaps", "x")."""
        return self.get(f"/api/v1/namespaces/{self.namespace}/{kind}/{name}")

    @property
    def install(self) -> str:
        """The commands that install our manifests."""
        if self.namespace != self.profile.namespace:  # its manifests would go elsewhere, over what is there
            return (f"the profile {self.profile.name} is of namespace {self.profile.namespace}: write a profile with "
                    f"'namespace: {self.namespace}' and give it as --profile FILE, or leave out --namespace")
        return f"argosy manifests --profile {self.file} --out DIR && kubectl apply -k DIR/{self.profile.name}"
