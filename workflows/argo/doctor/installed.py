"""Is everything that `argosy manifests` writes there, and of this version?"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from workflows.argo.doctor.check import Check, Cluster, Found
from workflows.argo.manifests import PROFILE, manifests

MOST = 4  # names in a line
COMPARED = ("spec", "data", "rules")


def installed(cluster: Cluster) -> Iterator[Found]:
    """Compare each object with ours; what the API server added does not count."""
    namespace = cluster.namespace
    count, missing, different = 0, [], []
    for document in (each for given in manifests(cluster.profile).values() for each in given):
        if document["kind"] == "Secret":  # few may read those; the rights check asks for what it is needed for
            continue
        count += 1
        label = f"{document['kind']} {document['metadata']['name']}"
        theirs = cluster.get(path_of(document, namespace))
        if theirs is None:
            missing.append(label)
        else:
            where = [at for key in COMPARED for at in differences(document.get(key), theirs.get(key), key)]
            different += [f"{label} ({where[0]})"] if where else []
    if missing:
        yield Found("FAIL", f"without {_short(missing)}", cluster.install)
    if different:
        yield Found("warn", f"not those of this version and profile: {_short(different)}", cluster.install)
    if not missing and not different:
        yield Found("ok", f"all {count} objects are there and of this version and profile")


def profiles(cluster: Cluster) -> Iterator[Found]:
    """Those that workflows may name, and the one that the templates are made of."""
    place = f"/api/v1/namespaces/{cluster.namespace}/configmaps"
    found = (cluster.get(place, labelSelector=PROFILE) or {}).get("items") or []
    names = sorted(str(each["metadata"]["labels"][PROFILE]) for each in found)
    template = cluster.get(f"/apis/argoproj.io/v1alpha1/namespaces/{cluster.namespace}/workflowtemplates/lifecycle")
    parameters = (((template or {}).get("spec") or {}).get("arguments") or {}).get("parameters") or []
    own = next((str(each.get("value", "")) for each in parameters if each["name"] == "profile"), "")
    if own and own not in names:
        mend = f"argosy manifests --profile {own} --out DIR && kubectl apply -f DIR/{own}/profile.yaml"
        yield Found("FAIL", f"the templates name the profile {own}, whose ConfigMap is not there", mend)
    else:
        yield Found("ok", f"{', '.join(names) or 'none'}; the templates are those of {own or 'nobody'}")


def path_of(document: Mapping[str, Any], namespace: str) -> str:
    """Where the API server has an object."""
    version, kind = document["apiVersion"], document["kind"].lower()
    plural = f"{kind[:-1]}ies" if kind.endswith("y") else f"{kind}es" if kind.endswith("s") else f"{kind}s"
    root = f"/apis/{version}" if "/" in version else f"/api/{version}"
    place = f"/namespaces/{namespace}" if document["metadata"].get("namespace") else ""
    return f"{root}{place}/{plural}/{document['metadata']['name']}"


def differences(ours: Any, theirs: Any, path: str) -> Iterator[str]:
    """Paths at which `theirs` lacks something of `ours`, or says another."""
    if isinstance(ours, Mapping):
        for key, value in ours.items():
            yield from differences(value, theirs.get(key) if isinstance(theirs, Mapping) else None, f"{path}.{key}")
    elif isinstance(ours, list):
        if not isinstance(theirs, list) or len(ours) != len(theirs):
            if ours or theirs:
                yield path
            return
        for number, (mine, other) in enumerate(zip(ours, theirs, strict=True)):
            yield from differences(mine, other, f"{path}[{number}]")
    elif ours != theirs and not (ours in ("", None, False) and theirs is None):
        yield path


def _short(names: list[str]) -> str:
    return ", ".join(names[:MOST]) + (f" and {len(names) - MOST} more" if len(names) > MOST else "")


CHECKS = (Check("installed", installed, 30), Check("profiles", profiles, 31))
