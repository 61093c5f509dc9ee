"""Checks that a cluster holds what `argosy manifests` writes, and notes on a profile that it does not."""

from collections.abc import Iterator, Mapping
from typing import Any

import yaml

from argosy.core.config.explain import first_of
from argosy.core.errors import InputError
from workflows.argo.client.view import Json, parameters_of
from workflows.argo.doctor import Cluster, Found
from workflows.argo.manifests.documents import PROFILE, manifests
from workflows.argo.profile.profile import TEMPLATE_STORE, Profile, check_store, is_shipped


def installed(cluster: Cluster) -> Iterator[Found]:
    """Check that each of our objects is there; whether it is of this version, `kubectl diff` says."""
    # Few may read a Secret; the token of the executor is the only one.
    ours = [each for given in manifests(cluster.profile).values() for each in given if each["kind"] != "Secret"]
    missing = [f"{each['kind']} {each['metadata']['name']}" for each in ours
               if cluster.get(path_of(each, cluster.namespace)) is None]  # fmt: skip
    if missing:
        yield Found("FAIL", f"without {first_of(missing, 4)}", cluster.install)
    else:
        yield Found("ok", f"all {len(ours)} objects are there (kubectl diff -k compares them with argosy manifests)")


def profiles(cluster: Cluster) -> Iterator[Found]:
    """Check the profiles that workflows may name, and the one that the templates are made of."""
    place = f"/api/v1/namespaces/{cluster.namespace}/configmaps"
    found = (cluster.get(place, labelSelector=PROFILE) or {}).get("items") or []
    names = sorted(str(each["metadata"]["labels"][PROFILE]) for each in found)
    place = f"/apis/argoproj.io/v1alpha1/namespaces/{cluster.namespace}/workflowtemplates/lifecycle"
    template = cluster.get(place) or {"spec": {}}
    own, there = default_of(template, "profile"), _store_of(template)
    if there and there != cluster.profile.storage.description:
        fix = f"--profile of that store, or the manifests of this profile: {cluster.install}"
        yield Found("FAIL", f"the templates are of the store {there}, and the profile {cluster.profile.name} has "
                    f"{cluster.profile.storage.description}: its workflows would be refused", fix)  # fmt: skip
    elif own and own not in names:
        fix = f"argosy manifests --profile {own} --out DIR && kubectl apply -f DIR/{own}/profile.yaml"
        yield Found("FAIL", f"the templates name the profile {own}, whose ConfigMap is not there", fix)
    else:
        yield Found("ok", f"{', '.join(names) or 'none'}; the templates are those of {own or 'nobody'}")


def path_of(document: Mapping[str, Any], namespace: str) -> str:
    """Return the path of an object in the API server."""
    version, kind = document["apiVersion"], document["kind"].lower()
    plural = f"{kind[:-1]}ies" if kind.endswith("y") else f"{kind}es" if kind.endswith("s") else f"{kind}s"
    root = f"/apis/{version}" if "/" in version else f"/api/{version}"
    place = f"/namespaces/{namespace}" if document["metadata"].get("namespace") else ""
    return f"{root}{place}/{plural}/{document['metadata']['name']}"


def profile_notes(template: Json, profile: Profile, held: str | None, install: str) -> Iterator[str]:
    """Yield notes on a submission of `template` with `profile`.

    `held`: YAML of the profile of that name in the namespace; "" where there is none, None where it is not known.
    `install`: the commands that install the profile. Raises InputError: the plan's pod would refuse the profile, or
    not find it."""
    check_store(profile, _store_of(template) or profile.storage.description)
    if held == "" and not is_shipped(profile.name):
        raise InputError(f"profile {profile.name!r} is not in the namespace, and pods would not find it: {install}")
    if held:
        ours, theirs = profile.model_dump(mode="json", exclude_unset=True), yaml.safe_load(held) or {}
        if names := sorted(key for key in {*ours, *theirs} if ours.get(key) != theirs.get(key)):
            yield (f"the profile {profile.name} that the namespace holds differs in {', '.join(names)}, and pods read "
                   f"that one; to install this one: {install}")
    own = default_of(template, "profile")
    if own and own != profile.name:
        yield (f"the WorkflowTemplate {template['metadata']['name']} was made from the profile {own}: images, "
               f"resources, devices and places are those of {profile.name}; accounts, volumes, attempts and deadlines "
               f"stay those of {own}; to change that: {install}")


def default_of(template: Json, name: str) -> str:
    return str(parameters_of(template["spec"]).get(name, {}).get("value", ""))


def _store_of(template: Json) -> str:
    containers = [each.get("container") or {} for each in template["spec"].get("templates") or []]
    told = [each for container in containers for each in container.get("env") or [] if each["name"] == TEMPLATE_STORE]
    return str(told[0].get("value", "")) if told else ""
