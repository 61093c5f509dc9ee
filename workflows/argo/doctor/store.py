"""Is the store's claim bound, and may many pods write it? (Whether they can, and a bucket, the check `pods` tries.)"""

from __future__ import annotations

from collections.abc import Iterator

from workflows.argo.doctor.check import Check, Cluster, Found

SHARED = "ReadWriteMany"


def store(cluster: Cluster) -> Iterator[Found]:
    """The claim, the nodes that a hostPath would split, or the bucket."""
    storage = cluster.profile.storage
    if storage.uri:
        yield from _bucket(cluster, storage.uri)
    else:
        yield from _claim(cluster, storage.claim) if storage.claim else _host_path(cluster, storage.host_path)


def _bucket(cluster: Cluster, uri: str) -> Iterator[Found]:
    if not cluster.profile.defaults.secrets:
        yield Found("warn", f"{uri}, and defaults.secrets names no credentials",
                    "fine where the service account has an identity that may write it; --deep tries it")  # fmt: skip
    elif cluster.deep:
        yield Found("ok", f"{uri}: see below what pods may do there")
    else:
        yield Found("warn", f"{uri} is not tried from here, since pods have the credentials", "argosy doctor --deep")


def _claim(cluster: Cluster, name: str) -> Iterator[Found]:
    claim = cluster.core("persistentvolumeclaims", name)
    if claim is None:
        mend = f"create one with accessModes: [{SHARED}], or name another in storage.claim of the profile"
        yield Found("FAIL", f"there is no PersistentVolumeClaim {name} in {cluster.namespace}", mend)
        return
    phase = (claim.get("status") or {}).get("phase", "Pending")
    modes = claim["spec"].get("accessModes") or []
    if phase == "Lost" or (phase != "Bound" and not claim["spec"].get("storageClassName")):
        mend = "it needs a PersistentVolume, or a storage class that makes one"
        mend = f"kubectl -n {cluster.namespace} describe pvc {name}: {mend}"
        yield Found("FAIL", f"the claim {name} is {phase}", mend)
    elif phase != "Bound":
        mend = "fine where its storage class waits for the first pod; --deep starts one"
        yield Found("warn", f"the claim {name} is {phase}", mend)
    elif SHARED not in modes:
        yield Found("warn", f"the claim {name} is {', '.join(modes)}", f"all pods must land on one node; take {SHARED}")
    else:
        yield Found("ok", f"the claim {name} is bound, {SHARED}")


def _host_path(cluster: Cluster, path: str) -> Iterator[Found]:
    nodes = (cluster.get("/api/v1/nodes") or {}).get("items") or []
    if len(nodes) > 1 and not cluster.profile.defaults.node_selector:
        what = f"{path} is a directory of each of {len(nodes)} nodes: steps would not see each other's results"
        yield Found("FAIL", what, "use storage.claim, or hold all pods on one node with defaults.node_selector")
    else:
        yield Found("ok", f"{path} of the node")


CHECKS = (Check("store", store, 50),)
