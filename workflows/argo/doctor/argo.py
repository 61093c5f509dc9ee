"""Checks of the API server, its clock, Argo's custom resources and Argo's controller."""

import re
import time
from collections.abc import Iterator, Mapping
from email.utils import parsedate_to_datetime
from typing import Any

from workflows.argo.client.transport import ApiError, Json
from workflows.argo.client.unit import seconds
from workflows.argo.doctor.check import Check, Cluster, Found, containers
from workflows.argo.manifests.documents import manifests

OLDEST = (1, 31)  # of Kubernetes
LITTLE_S, MUCH_S = 5.0, 30.0  # a lease of a step holds for 30 s
SYNC = "let both machines take their time from NTP"
KINDS = ("workflows", "workflowtemplates", "cronworkflows", "workflowtaskresults")
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
INSTALL = "install Argo 4.1: kubectl apply --server-side -k argo-install/overlays/..., see argo-install/README.md"
OLD = "docs/install.md says how to come from 3.4"
STALE_S = 60.0


def reachable(cluster: Cluster) -> Iterator[Found]:
    """Check the version of the API server."""
    found = cluster.api.ask("GET", "/version")
    version = tuple(int("".join(filter(str.isdigit, found.get(part, "0"))) or 0) for part in ("major", "minor"))
    text = f"{cluster.api.where}: Kubernetes {found.get('gitVersion', '?')}"
    if version < OLDEST:
        yield Found("warn", text, f"Argosy is tried on {'.'.join(map(str, OLDEST))} and newer")
    else:
        yield Found("ok", text)


def clock(cluster: Cluster) -> Iterator[Found]:
    """Compare its Date header, which has whole seconds, with this machine's clock."""
    before = time.time()
    date = cluster.api.headers("/version").get("Date")
    if not date:
        yield Found("warn", "the API server does not say its time")
        return
    yield clock_found("the API server", parsedate_to_datetime(date).timestamp(), before, time.time(), 1.0)


def clock_found(who: str, theirs: float, before: float, after: float, step: float = 0.0) -> Found:
    """Judge a clock read between `before` and `after` of this machine's; `step` is its coarseness in seconds."""
    off = max(0.0, before - step - theirs, theirs - after)
    if off <= LITTLE_S:
        return Found("ok", f"{who} and this machine agree")
    return Found("FAIL" if off > MUCH_S else "warn", f"{who} is {off:.0f} s off this machine's clock", SYNC)


def resources(cluster: Cluster) -> Iterator[Found]:
    """Check the CRDs; those that check fields must know the ones that our templates use."""
    served = cluster.get("/apis/argoproj.io/v1alpha1") or {}  # a CRD itself weighs megabytes
    missing = set(KINDS) - {each["name"] for each in served.get("resources") or []}
    if missing:
        yield Found("FAIL", f"without {', '.join(f'{kind}.argoproj.io' for kind in sorted(missing))}", INSTALL)
        return
    schema = _schema(cluster.get(f"{CRDS}/workflowtemplates.argoproj.io") or {})
    if "properties" not in schema:
        yield Found("ok", "minimal: they take any field, so that a wrong one shows only when a workflow runs")
        return
    ours = [each for given in manifests(cluster.profile).values() for each in given]
    specs = [each["spec"] for each in ours if each["kind"] == "WorkflowTemplate"]
    unknown = {name for spec in specs for name in unknown_fields(spec, schema, "spec")}
    if unknown:
        yield Found("FAIL", f"they would drop {', '.join(sorted(unknown)[:5])}", INSTALL)
    else:
        yield Found("ok", "full, and they know every field of our templates")


def controller(cluster: Cluster) -> Iterator[Found]:
    """Check that its deployment is ready, and its leader's lease fresh."""
    deployment = find_controller(cluster)
    if deployment is None:
        yield Found("FAIL", "no deployment of Argo's workflow-controller", INSTALL)
        return
    place = deployment["metadata"]["namespace"]
    ready = (deployment.get("status") or {}).get("readyReplicas") or 0
    image = next(each["image"] for each in containers(deployment) if "workflow-controller" in each["image"])
    lease = cluster.get(f"/apis/coordination.k8s.io/v1/namespaces/{place}/leases/workflow-controller")
    renewed = seconds(((lease or {}).get("spec") or {}).get("renewTime"))
    if not ready:
        yield Found("FAIL", f"the controller in {place} is not ready", f"kubectl -n {place} describe deployment,pods")
    elif renewed and time.time() - renewed > STALE_S:
        yield Found("FAIL", f"no controller leads since {time.time() - renewed:.0f} s", f"kubectl -n {place} logs "
                    f"deployment/{deployment['metadata']['name']}")  # fmt: skip
    else:
        yield Found("ok", f"runs in {place}, {ready} ready")
    yield version_found(image)


def version_found(image: str) -> Found:
    """Judge the version in the image's tag."""
    found = re.search(r":v?(\d+)\.(\d+)(\.\S+?)?(?:@|$)", image)
    if not found:
        return Found("warn", f"the version of {image} is not to be seen", "Argosy wants Argo 4.0 or newer")
    version, text = (int(found[1]), int(found[2])), f"Argo {found[1]}.{found[2]}{found[3] or ''}"
    if version >= (4, 0):
        return Found("ok", text)
    if version >= (3, 5):
        return Found("warn", f"{text}: older than what Argosy is tried on", f"4.0 or newer is wanted; {INSTALL}")
    return Found("FAIL", f"{text}: too old, it lacks what our templates use", f"{INSTALL}; {OLD}")


def find_controller(cluster: Cluster) -> Json | None:
    """Find the controller's deployment; where only some namespaces may be read, in those."""
    places = ["/apis/apps/v1/deployments"]
    places += [f"/apis/apps/v1/namespaces/{each}/deployments" for each in dict.fromkeys(("argo", cluster.namespace))]
    refused: ApiError | None = None
    for place in places:
        try:
            found = cluster.get(place) or {}
        except ApiError as error:
            refused = error
            continue
        for each in found.get("items") or []:
            if any("workflow-controller" in container["image"] for container in containers(each)):
                return dict(each)
    if refused:
        raise refused
    return None


def unknown_fields(value: Any, schema: Mapping[str, Any], path: str) -> Iterator[str]:
    """Yield paths in `value` that an OpenAPI schema does not have: an API server drops them."""
    if isinstance(value, list):
        for each in value:
            yield from unknown_fields(each, schema.get("items") or {}, path)
    elif isinstance(value, Mapping) and "properties" in schema:
        for key, each in value.items():
            if key in schema["properties"]:
                yield from unknown_fields(each, schema["properties"][key], f"{path}.{key}")
            elif not schema.get("x-kubernetes-preserve-unknown-fields"):
                yield f"{path}.{key}"


def _schema(crd: Json) -> Mapping[str, Any]:
    versions = (crd.get("spec") or {}).get("versions") or [{}]
    whole = (versions[0].get("schema") or {}).get("openAPIV3Schema") or {}
    found: Mapping[str, Any] = (whole.get("properties") or {}).get("spec") or {}
    return found


CHECKS = (Check("api", reachable, 0), Check("resources", resources, 10), Check("controller", controller, 20),
          Check("clock", clock, 90))  # fmt: skip
