"""Checks of the API server, its clock, Argo's custom resources and controller, and of rights: you may submit, the
executor may report, and steps may do nothing."""

import re
import time
from collections.abc import Iterator, Sequence
from email.utils import parsedate_to_datetime

from workflows.argo.client.api import ApiError
from workflows.argo.client.view import Json, seconds
from workflows.argo.doctor import Check, Cluster, Found

OLDEST = (1, 31)  # of Kubernetes
LITTLE_S, MUCH_S = 5.0, 30.0  # a lease of a step holds for 30 s
SYNC = "let both machines take their time from NTP"
KINDS = ("workflows", "workflowtemplates", "cronworkflows", "workflowtaskresults")
INSTALL = "install Argo 4.1: kubectl apply --server-side -k argo-install/overlays/..., see argo-install/README.md"
OLD = "docs/install.md says how to come from 3.4"
STALE_S = 60.0
ARGO = "argoproj.io"
Wanted = tuple[str, str, str]  # verb, API group, resource
YOURS: tuple[Wanted, ...] = (
    ("create", ARGO, "workflows"), ("get", ARGO, "workflows"), ("list", ARGO, "workflows"),
    ("patch", ARGO, "workflows"), ("get", ARGO, "workflowtemplates"), ("get", "", "pods/log"),
)  # fmt: skip
EXECUTORS: tuple[Wanted, ...] = (("create", ARGO, "workflowtaskresults"), ("patch", ARGO, "workflowtaskresults"))
NEVER_STEPS: tuple[Wanted, ...] = (("list", "", "secrets"), ("get", "", "secrets"), ("create", "", "pods"),
                                   ("create", ARGO, "workflows"))  # fmt: skip


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
    with cluster.api.open("/version", headers={"Accept": "application/json"}) as (headers, _):
        date = headers.get("Date")
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
    """Check that Argo's kinds are served; `installed` finds the fields that CRDs of another version have dropped."""
    served = cluster.get("/apis/argoproj.io/v1alpha1") or {}  # a CRD itself weighs megabytes
    missing = set(KINDS) - {each["name"] for each in served.get("resources") or []}
    if missing:
        yield Found("FAIL", f"without {', '.join(f'{kind}.argoproj.io' for kind in sorted(missing))}", INSTALL)
    else:
        yield Found("ok", f"{', '.join(KINDS)} are there")


def controller(cluster: Cluster) -> Iterator[Found]:
    """Check that its deployment is ready, and its leader's lease fresh."""
    deployment = find_controller(cluster)
    if deployment is None:
        yield Found("FAIL", "no deployment of Argo's workflow-controller", INSTALL)
        return
    place = deployment["metadata"]["namespace"]
    ready = (deployment.get("status") or {}).get("readyReplicas") or 0
    image = next(each["image"] for each in _containers(deployment) if "workflow-controller" in each["image"])
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
            if any("workflow-controller" in container["image"] for container in _containers(each)):
                return dict(each)
    if refused:
        raise refused
    return None


def _containers(deployment: Json) -> list[Json]:
    return list(deployment["spec"]["template"]["spec"]["containers"])


def yours(cluster: Cluster) -> Iterator[Found]:
    """Check the rights that submit, watch, logs and stop need of whoever types them."""
    if lacking := _which(cluster, YOURS, allowed=False):
        yield Found("FAIL", f"you may not {lacking}", f"have a Role in {cluster.namespace} bound to you that allows it")
    else:
        yield Found("ok", "you may submit, watch, stop and read logs")


def executor(cluster: Cluster) -> Iterator[Found]:
    """Check the account under which Argo's executor reports the outputs of pods."""
    account = cluster.profile.executor_account
    lacking = _which(cluster, EXECUTORS, account, allowed=False)
    yield (Found("FAIL", f"service account {account} may not {lacking}", cluster.install) if lacking
           else Found("ok", f"service account {account} may report results"))  # fmt: skip


def steps(cluster: Cluster) -> Iterator[Found]:
    """Check that steps' pods may do nothing: they run configs and data from elsewhere."""
    who = f"service account {(account := cluster.profile.service_account)} of the steps"
    too_much = _which(cluster, NEVER_STEPS, account, allowed=True)
    yield (Found("warn", f"{who} may {too_much}", "take its RoleBindings away: steps need no rights") if too_much
           else Found("ok", f"{who} may neither read secrets nor start pods"))  # fmt: skip


def _which(cluster: Cluster, wanted: Sequence[Wanted], account: str = "", *, allowed: bool) -> str:
    """Name those of `wanted` that a service account ("": you) may do, or may not."""
    return ", ".join(f"{each[0]} {each[2]}" for each in wanted if _may(cluster, each, account) == allowed)


def _may(cluster: Cluster, wanted: Wanted, account: str) -> bool:
    verb, group, resource = wanted
    resource, _, subresource = resource.partition("/")
    attributes = {"namespace": cluster.namespace, "verb": verb, "group": group, "resource": resource}
    spec: Json = {"resourceAttributes": attributes | ({"subresource": subresource} if subresource else {})}
    kind = "SelfSubjectAccessReview"
    if account:
        kind = "SubjectAccessReview"
        spec |= {"user": f"system:serviceaccount:{cluster.namespace}:{account}",
                 "groups": ["system:serviceaccounts", f"system:serviceaccounts:{cluster.namespace}",
                            "system:authenticated"]}  # fmt: skip
    review = {"apiVersion": "authorization.k8s.io/v1", "kind": kind, "spec": spec}
    found = cluster.api.ask("POST", f"/apis/authorization.k8s.io/v1/{kind.lower()}s", review)
    if "status" not in found:
        raise ApiError(403, "the API server does not say who may do what")
    return bool(found["status"].get("allowed"))


CHECKS = (Check("api", reachable, 0), Check("resources", resources, 10), Check("controller", controller, 20),
          Check("rights", yours, 40), Check("executor", executor, 41), Check("steps", steps, 42),
          Check("clock", clock, 90))  # fmt: skip
