"""The check of data near the pods: the node's cache, or Fluid and its Dataset."""

from collections.abc import Iterator

from workflows.argo.client.transport import ApiError
from workflows.argo.doctor.check import Check, Cluster, Found
from workflows.argo.doctor.profile import claim
from workflows.argo.manifests.fluid import dataset

_API = "/apis/data.fluid.io/v1alpha1"


def near(cluster: Cluster) -> Iterator[Found]:
    """Check the claim of a cache; of Fluid that it is installed, and that its Dataset can be mounted."""
    cache, fluid = cluster.profile.storage.cache, cluster.profile.storage.fluid
    if fluid:
        yield from _fluid(cluster, fluid.namespace or cluster.profile.namespace)
    elif cache and cache.claim:
        yield from claim(cluster, cache.claim)
    elif cache and cluster.deep:
        yield Found("ok", f"{cache.host_path} of each node: see below what pods may do there")
    elif cache:
        yield Found("warn", f"{cache.host_path} of each node is not tried from here", "argosy doctor --deep")
    else:
        yield Found("ok", "the profile has no cache")


def _fluid(cluster: Cluster, place: str) -> Iterator[Found]:
    name = dataset(cluster.profile)
    try:
        cluster.api.ask("GET", _API)
    except ApiError as error:
        if error.status != 404:
            raise
        yield Found("FAIL", "Fluid is not installed: there is no API data.fluid.io/v1alpha1",
                    "install it (its chart is fluid/fluid), or take storage.cache in the profile")  # fmt: skip
        return
    for namespace in dict.fromkeys((place, cluster.namespace)):
        found = cluster.get(f"{_API}/namespaces/{namespace}/datasets/{name}")
        phase = ((found or {}).get("status") or {}).get("phase") or "not bound yet"
        if found is None:
            yield Found("FAIL", f"there is no Dataset {name} in {namespace}: pods wait for its claim", cluster.install)
        elif phase != "Bound":
            yield Found("FAIL", f"the Dataset {name} in {namespace} is {phase}: pods wait for its claim",
                        f"kubectl -n {namespace} describe dataset,pod {name}; its pods are privileged")  # fmt: skip
        else:
            yield Found("ok", f"the Dataset {name} in {namespace} is bound")


CHECKS = (Check("near", near, 51),)
