"""Checks of the things that the profile names: the store, PriorityClasses, semaphores, Secrets, MLflow, artifacts."""

import urllib.request
from collections.abc import Callable, Iterator, Sequence

import yaml

from workflows.argo.client.api import TIMEOUT_S
from workflows.argo.client.view import Json
from workflows.argo.doctor import Check, Cluster, Found
from workflows.argo.doctor.argo import find_controller
from workflows.argo.profile.profile import dataset
from workflows.argo.profile.settings import Placement

REPOSITORIES = "artifact-repositories"
CONTROLLER_CONFIG = "workflow-controller-configmap"
SHARED = "ReadWriteMany"
FLUID = "/apis/data.fluid.io/v1alpha1"
Lack = tuple[str, str]  # what is wrong, and how to fix it
METADATA = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"


def priorities(cluster: Cluster) -> Iterator[Found]:
    """Check each PriorityClass that the form offers."""

    def look(name: str) -> Lack | None:
        fix = f"kubectl create priorityclass {name} --value=1000, or take it out of priorities in the profile"
        there = cluster.get(f"/apis/scheduling.k8s.io/v1/priorityclasses/{name}")
        return None if there else (f"there is no PriorityClass {name}", fix)

    yield _each("PriorityClasses", cluster.profile.priorities, look)


def slots(cluster: Cluster) -> Iterator[Found]:
    """Check each semaphore: a key of a ConfigMap that holds how many may work at a time."""

    def look(slot: str) -> Lack | None:
        name, _, key = slot.partition("/")
        value = ((cluster.core("configmaps", name) or {}).get("data") or {}).get(key, "")
        fix = f"kubectl -n {cluster.namespace} create configmap {name} --from-literal={key}=1"
        wrong = f"semaphore {slot} is {value or 'not there'}: workflows would wait for it for ever"
        return None if value.isdigit() and int(value) >= 1 else (wrong, fix)

    yield _each("semaphores", sorted({each.slot for each in _placements(cluster) if each.slot}), look)


def secrets(cluster: Cluster) -> Iterator[Found]:
    """Check the Secrets that pods read or pull with, by their metadata alone: nobody needs their content."""

    def look(name: str) -> Lack | None:
        fix = f"kubectl -n {cluster.namespace} create secret generic {name} ..."
        there = cluster.get(f"/api/v1/namespaces/{cluster.namespace}/secrets/{name}", accept=METADATA)
        return None if there else (f"there is no Secret {name}: pods that need it would not start", fix)

    wanted = {name for each in _placements(cluster) for name in each.secrets}
    wanted |= {*cluster.profile.images.pull_secrets, cluster.profile.nightly.webhook_secret.partition("/")[0]} - {""}
    yield _each("Secrets", sorted(wanted), look)


def _each(kind: str, names: Sequence[str], look: Callable[[str], Lack | None]) -> Found:
    """Tell the first lack among `names`, or that the cluster has them all."""
    lack = next(filter(None, map(look, names)), None)
    return Found("FAIL", *lack) if lack else Found(
        "ok", f"{kind} {', '.join(names)}" if names else "the profile names none")  # fmt: skip


def _placements(cluster: Cluster) -> Iterator[Placement]:
    yield from (cluster.profile.defaults, *cluster.profile.stages.values())


def store(cluster: Cluster) -> Iterator[Found]:
    """Check the claim, the nodes that a hostPath would split, or the bucket."""
    storage, defaults = cluster.profile.storage, cluster.profile.defaults
    if storage.claim:
        yield from claim(cluster, storage.claim)
    elif storage.uri and not defaults.secrets:
        yield Found("warn", f"{storage.uri}, and defaults.secrets names no credentials",
                    "fine where the service account has an identity that may write it; --deep tries it")  # fmt: skip
    elif storage.uri and cluster.deep:
        yield Found("ok", f"{storage.uri}: see below what pods may do there")
    elif storage.uri:
        yield Found("warn", f"{storage.uri} is not tried from here, since pods have the credentials",
                    "argosy doctor --deep")  # fmt: skip
    elif (nodes := len((cluster.get("/api/v1/nodes") or {}).get("items") or [])) > 1 and not defaults.node_selector:
        what = f"{storage.host_path} is a directory of each of {nodes} nodes: steps would not see each other's results"
        yield Found("FAIL", what, "use storage.claim, or hold all pods on one node with defaults.node_selector")
    else:
        yield Found("ok", f"{storage.host_path} of the node")


def claim(cluster: Cluster, name: str) -> Iterator[Found]:
    """Check that a claim is there, bound, and of many pods."""
    there = cluster.core("persistentvolumeclaims", name)
    if there is None:
        fix = f"create one with accessModes: [{SHARED}], or name another in the profile"
        yield Found("FAIL", f"there is no PersistentVolumeClaim {name} in {cluster.namespace}", fix)
        return
    phase = (there.get("status") or {}).get("phase", "Pending")
    modes = there["spec"].get("accessModes") or []
    if phase == "Lost" or (phase != "Bound" and not there["spec"].get("storageClassName")):
        fix = "it needs a PersistentVolume, or a storage class that makes one"
        fix = f"kubectl -n {cluster.namespace} describe pvc {name}: {fix}"
        yield Found("FAIL", f"the claim {name} is {phase}", fix)
    elif phase != "Bound":
        fix = "fine where its storage class waits for the first pod; --deep starts one"
        yield Found("warn", f"the claim {name} is {phase}", fix)
    elif SHARED not in modes:
        yield Found("warn", f"the claim {name} is {', '.join(modes)}", f"all pods must land on one node; take {SHARED}")
    else:
        yield Found("ok", f"the claim {name} is bound, {SHARED}")


def mlflow(cluster: Cluster) -> Iterator[Found]:
    """Ask its /health from this machine. Pods may reach it where this machine does not: --deep asks from one."""
    tracking = cluster.profile.tracking
    if not tracking.uri:
        yield Found("warn", "no tracking.uri in the profile: metrics go to mlflow.db in the store", "set tracking.uri")
    if not tracking.url:
        yield Found("ok", "no tracking.url in the profile: no links, and nothing to ask from here")
        return
    try:
        urllib.request.urlopen(f"{tracking.url.rstrip('/')}/health", timeout=TIMEOUT_S).close()
    except (OSError, ValueError) as error:
        yield Found("warn", f"MLflow at {tracking.url} does not answer this machine: {error}",
                    "check tracking.url of the profile, or the way there")  # fmt: skip
    else:
        yield Found("ok", f"MLflow at {tracking.url} answers")


def artifacts(cluster: Cluster) -> Iterator[Found]:
    """Check for a repository: with `artifacts: true`, pods that have some fail without one."""
    if not cluster.profile.artifacts:
        yield Found("ok", "the profile asks for none: the report is in the store")
        return
    found = repository(cluster)
    if found is None:
        fix = f"a ConfigMap {REPOSITORIES} in {cluster.namespace} (argo-install has one), or artifacts: false"
        yield Found("FAIL", "the profile asks for artifacts, and no repository is configured", fix)
    else:
        kind = next((key for key in ("s3", "gcs", "azure", "oss", "hdfs") if key in found), "of an unknown kind")
        bucket = (found.get(kind) or {}).get("bucket", "")
        yield Found("ok", f"the repository is {kind} {bucket}".rstrip())


def repository(cluster: Cluster) -> Json | None:
    """Read the namespace's default repository, else the controller's."""
    own = cluster.core("configmaps", REPOSITORIES)
    if own and own.get("data"):
        default = (own["metadata"].get("annotations") or {}).get("workflows.argoproj.io/default-artifact-repository")
        text = own["data"].get(default) if default else next(iter(own["data"].values()))
        return dict(yaml.safe_load(text) or {}) if text else None
    controller = find_controller(cluster)
    place = controller["metadata"]["namespace"] if controller else "argo"
    config = cluster.get(f"/api/v1/namespaces/{place}/configmaps/{CONTROLLER_CONFIG}") or {}
    text = (config.get("data") or {}).get("artifactRepository")
    return dict(yaml.safe_load(text)) if text else None


def near(cluster: Cluster) -> Iterator[Found]:
    """Check the claim of a cache; of Fluid that it is installed, and that its Dataset can be mounted."""
    cache, fluid, name = cluster.profile.storage.cache, cluster.profile.storage.fluid, dataset(cluster.profile)
    if cache and cache.claim:
        yield from claim(cluster, cache.claim)
    elif cache and cluster.deep:
        yield Found("ok", f"{cache.host_path} of each node: see below what pods may do there")
    elif cache:
        yield Found("warn", f"{cache.host_path} of each node is not tried from here", "argosy doctor --deep")
    elif not fluid:
        yield Found("ok", "the profile has no cache")
    elif cluster.get(FLUID) is None:
        yield Found("FAIL", "Fluid is not installed: there is no API data.fluid.io/v1alpha1",
                    "install it (its chart is fluid/fluid), or take storage.cache in the profile")  # fmt: skip
    else:
        for place in dict.fromkeys((fluid.namespace or cluster.profile.namespace, cluster.namespace)):
            found = cluster.get(f"{FLUID}/namespaces/{place}/datasets/{name}")
            phase = ((found or {}).get("status") or {}).get("phase") or "not bound yet"
            if found is None:
                yield Found("FAIL", f"there is no Dataset {name} in {place}: pods wait for its claim", cluster.install)
            elif phase != "Bound":
                yield Found("FAIL", f"the Dataset {name} in {place} is {phase}: pods wait for its claim",
                            f"kubectl -n {place} describe dataset,pod {name}; its pods are privileged")
            else:
                yield Found("ok", f"the Dataset {name} in {place} is bound")


CHECKS = (Check("store", store, 50), Check("near", near, 51), Check("priorities", priorities, 60),
          Check("slots", slots, 61), Check("secrets", secrets, 62), Check("mlflow", mlflow, 70),
          Check("artifacts", artifacts, 71))  # fmt: skip
