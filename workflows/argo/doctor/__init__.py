"""Checks of a cluster, functions that yield findings; a module of this package with `CHECKS` is found by its place."""

import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal

from argosy.core.plugins import modules
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


@dataclass(frozen=True)
class Check:
    """A check. With `pods` it starts some, and runs with --deep alone."""

    name: str
    look: Callable[[Cluster], Iterator[Found]]
    order: int
    pods: bool = False


def checks() -> list[Check]:
    """Find every check of this package, in the order in which they are reported."""
    found = [each for module in modules(sys.modules[__name__]).values() for each in getattr(module, "CHECKS", ())]
    return sorted(found, key=lambda each: each.order)


def examine(cluster: Cluster) -> Iterator[tuple[Check, Found]]:
    """Run all checks. The first finds whether the API answers; where it does not, nothing else is asked."""
    first, *others = (each for each in checks() if cluster.deep or not each.pods)
    found = look(first, cluster)
    yield from ((first, each) for each in found)
    if not any(each.state == "FAIL" for each in found):
        yield from ((check, each) for check in others for each in look(check, cluster))


def look(check: Check, cluster: Cluster) -> list[Found]:
    """Run one check; where it lacks rights, that is a warning; what breaks is a failure."""
    try:
        return list(check.look(cluster))
    except ApiError as error:
        if error.status in (401, 403):
            return [Found("warn", f"cannot be looked at: {error}", "run it as somebody who may read this")]
        return [Found("FAIL", str(error), "see what the API server says of it")]
