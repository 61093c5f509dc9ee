"""Checks of a cluster, functions that yield findings: Argo itself, our manifests, your rights, all that the profile
names. What pods can do, a small workflow shows."""

import re
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

import yaml

from argosy.core.config.explain import first_of
from workflows.argo.client.api import TIMEOUT_S, ApiError, Transport
from workflows.argo.client.submission import default_of, store_of
from workflows.argo.client.view import Json
from workflows.argo.manifests.documents import PROFILE, manifests
from workflows.argo.profile.profile import Profile

KINDS = ("workflows", "workflowtemplates", "cronworkflows", "workflowtaskresults")
INSTALL = ("install Argo 4.1: kubectl apply --server-side -k argo-install/overlays/..., see argo-install/README.md; "
           "docs/install.md says how to come from 3.4")
WANTED = (("create", "workflows"), ("get", "workflows"), ("list", "workflows"), ("patch", "workflows"),
          ("get", "workflowtemplates"), ("get", "pods/log"))  # verb and resource
SHARED = "ReadWriteMany"
METADATA = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"


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
        if self.namespace != self.profile.namespace:  # its manifests would go elsewhere, over what is there
            return (f"the profile {self.profile.name} is of namespace {self.profile.namespace}: write a profile with "
                    f"'namespace: {self.namespace}' and give it as --profile FILE, or leave out --namespace")
        return f"argosy manifests --profile {self.file} --out DIR && kubectl apply -k DIR/{self.profile.name}"


def reachable(cluster: Cluster) -> Iterator[Found]:
    """Ask the API server for its version."""
    yield Found("ok", f"{cluster.api.where}: Kubernetes {cluster.api.ask('GET', '/version').get('gitVersion', '?')}")


def resources(cluster: Cluster) -> Iterator[Found]:
    """Check that Argo's kinds are served; `installed` finds the fields that CRDs of another version have dropped."""
    served = cluster.get("/apis/argoproj.io/v1alpha1") or {}  # a CRD itself weighs megabytes
    missing = set(KINDS) - {each["name"] for each in served.get("resources") or []}
    lacks = ", ".join(f"{kind}.argoproj.io" for kind in sorted(missing))
    yield Found("FAIL", f"without {lacks}", INSTALL) if missing else Found("ok", f"{', '.join(KINDS)} are there")


def controller(cluster: Cluster) -> Iterator[Found]:
    """Check that its deployment is ready, and of a version that our templates are for."""
    deployment = find_controller(cluster)
    if deployment is None:
        yield Found("FAIL", "no deployment of Argo's workflow-controller", INSTALL)
        return
    place, image = deployment["metadata"]["namespace"], _image(deployment)
    ready = (deployment.get("status") or {}).get("readyReplicas") or 0
    found = re.search(r":v?((\d+)\.\d+\S*?)(?:@|$)", image)
    if not ready:
        yield Found("FAIL", f"the controller in {place} is not ready", f"kubectl -n {place} describe deployment,pods")
    elif found and int(found[2]) < 4:
        yield Found("FAIL", f"Argo {found[1]}: too old, it lacks what our templates use", INSTALL)
    else:
        yield Found("ok", f"Argo {found[1] if found else image} runs in {place}, {ready} ready")


def find_controller(cluster: Cluster, name: str = "workflow-controller") -> Json | None:
    """Find a controller's deployment by its image, in the usual namespaces where one may not look into all."""
    refused: ApiError | None = None
    for place in ("", "/namespaces/argo", f"/namespaces/{cluster.namespace}"):
        try:
            found = cluster.get(f"/apis/apps/v1{place}/deployments") or {}
        except ApiError as error:
            refused = error
            continue
        if given := next((each for each in found.get("items") or [] if _image(each, name)), None):
            return dict(given)
    if refused:
        raise refused
    return None


def _image(deployment: Json, name: str = "workflow-controller") -> str:
    images = (each["image"] for each in deployment["spec"]["template"]["spec"]["containers"])
    return next((image for image in images if name in image), "")


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
    own, there = default_of(template, "profile"), store_of(template)
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


def rights(cluster: Cluster) -> Iterator[Found]:
    """Check the rights that submit, watch, logs and stop need of whoever types them."""
    lacking = []
    for verb, named in WANTED:
        resource, _, subresource = named.partition("/")
        attributes = {"namespace": cluster.namespace, "verb": verb, "resource": resource, "subresource": subresource,
                      "group": "" if subresource else "argoproj.io"}
        review = {"apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview",
                  "spec": {"resourceAttributes": attributes}}
        found = cluster.api.ask("POST", "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", review)
        lacking += [] if found["status"].get("allowed") else [f"{verb} {named}"]
    if lacking:
        yield Found("FAIL", f"you may not {', '.join(lacking)}",
                    f"have a Role in {cluster.namespace} bound to you that allows it")
    else:
        yield Found("ok", "you may submit, watch, stop and read logs")


def store(cluster: Cluster) -> Iterator[Found]:
    """Check the claim, the nodes that a hostPath would split, or the bucket."""
    storage, defaults = cluster.profile.storage, cluster.profile.defaults
    if storage.claim:
        yield _claim(cluster, storage.claim)
    elif storage.uri:
        yield Found("warn", f"{storage.uri} is not tried from here, since pods have the credentials",
                    "argosy submit --preset tiny --to data --watch")  # fmt: skip
    elif (nodes := len((cluster.get("/api/v1/nodes") or {}).get("items") or [])) > 1 and not defaults.node_selector:
        what = f"{storage.host_path} is a directory of each of {nodes} nodes: steps would not see each other's results"
        yield Found("FAIL", what, "use storage.claim, or hold all pods on one node with defaults.node_selector")
    else:
        yield Found("ok", f"{storage.host_path} of the node")


def _claim(cluster: Cluster, name: str) -> Found:
    there = cluster.core("persistentvolumeclaims", name)
    if there is None:
        return Found("FAIL", f"there is no PersistentVolumeClaim {name} in {cluster.namespace}",
                     f"create one with accessModes: [{SHARED}], or name another in the profile")
    phase, modes = (there.get("status") or {}).get("phase", "Pending"), there["spec"].get("accessModes") or []
    if phase != "Bound":
        return Found("FAIL" if phase == "Lost" else "warn", f"the claim {name} is {phase}",
                     f"kubectl -n {cluster.namespace} describe pvc {name}; fine where its storage class waits for the "
                     "first pod")
    if SHARED not in modes:
        return Found("warn", f"the claim {name} is {', '.join(modes)}", f"all pods must be on one node; take {SHARED}")
    return Found("ok", f"the claim {name} is bound, {SHARED}")


def operators(cluster: Cluster) -> Iterator[Found]:
    """Check that the operators are there that the profile stands on, and their objects that it names."""
    nodes = cluster.profile.nodes
    for wanted, name, place, remedy in (
        (nodes, "JobSet", "/apis/jobset.x-k8s.io/v1alpha2", "install it, or take `nodes` out of the profile"),
        (nodes and nodes.kind == "TrainJob", "Kubeflow Trainer", "/apis/trainer.kubeflow.org/v1alpha1",
         "install version 2 of it, or leave nodes.kind out of the profile"),
        *((nodes, *need) for need in cluster.profile.queue.needs(cluster.namespace)),
        (cluster.profile.events, "EventBus of Argo Events", "/apis/argoproj.io/v1alpha1/namespaces/"
         f"{cluster.namespace}/eventbus/default", "install the component events, or take `events` out of the profile"),
    ):
        if wanted:
            found = cluster.get(place) if place.startswith("/") else find_controller(cluster, place)
            yield Found("FAIL", f"there is no {name}", remedy) if found is None else Found("ok", f"{name} is there")


def named(cluster: Cluster) -> Iterator[Found]:
    """Check what the profile names: PriorityClasses, semaphores (keys of ConfigMaps that hold how many may work at a
    time) and Secrets, by their metadata alone: nobody needs their content."""
    profile, create = cluster.profile, f"kubectl -n {cluster.namespace} create"
    placements, lacks = (profile.defaults, *profile.stages.values()), []
    for name in profile.priorities:
        if cluster.get(f"/apis/scheduling.k8s.io/v1/priorityclasses/{name}") is None:
            lacks.append(Found("FAIL", f"there is no PriorityClass {name}", f"kubectl create priorityclass {name} "
                               "--value=1000, or take it out of priorities in the profile"))  # fmt: skip
    for slot in sorted({each.slot for each in placements} - {""}):
        name, _, key = slot.partition("/")
        value = ((cluster.core("configmaps", name) or {}).get("data") or {}).get(key, "")
        if not value.isdigit() or int(value) < 1:
            wrong = f"semaphore {slot} is {value or 'not there'}: workflows would wait for it for ever"
            lacks.append(Found("FAIL", wrong, f"{create} configmap {name} --from-literal={key}=1"))
    secrets = {name for each in placements for name in each.secrets} | {*profile.images.pull_secrets}
    secrets |= {name for event in profile.events.values() for name in event.secrets}
    for name in sorted(secrets | {profile.nightly.webhook_secret.partition("/")[0]} - {""}):
        if cluster.get(f"/api/v1/namespaces/{cluster.namespace}/secrets/{name}", accept=METADATA) is None:
            wrong = f"there is no Secret {name}: pods that need it would not start"
            lacks.append(Found("FAIL", wrong, f"{create} secret generic {name} ..."))
    yield from lacks or [Found("ok", "PriorityClasses, semaphores and Secrets of the profile are there")]


def mlflow(cluster: Cluster) -> Iterator[Found]:
    """Ask its /health from this machine; pods may reach it where this machine does not."""
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
    """Check for a repository, the namespace's or the controller's, which `artifacts: true` needs."""
    if not cluster.profile.artifacts:
        yield Found("ok", "the profile asks for none: the report is in the store")
        return
    texts = list(((cluster.core("configmaps", "artifact-repositories") or {}).get("data") or {}).values())
    if not texts:
        place = (find_controller(cluster) or {"metadata": {"namespace": "argo"}})["metadata"]["namespace"]
        config = cluster.get(f"/api/v1/namespaces/{place}/configmaps/workflow-controller-configmap") or {}
        texts = [text for name, text in (config.get("data") or {}).items() if name == "artifactRepository"]
    if texts:
        yield Found("ok", f"a repository: {', '.join(yaml.safe_load(texts[0]) or {})}")
    else:
        yield Found("FAIL", "the profile asks for artifacts, and no repository is configured",
                    "make a ConfigMap artifact-repositories (argo-install has one), or set artifacts: false")


CHECKS: dict[str, Callable[[Cluster], Iterator[Found]]] = {
    "api": reachable, "resources": resources, "controller": controller, "installed": installed, "profiles": profiles,
    "rights": rights, "store": store, "operators": operators, "named": named,
    "mlflow": mlflow, "artifacts": artifacts,
}  # fmt: skip


def examine(cluster: Cluster) -> Iterator[tuple[str, Found]]:
    """Run all checks in order; lacking rights is a warning. Where the API does not answer, nothing else is asked."""
    for name, look in CHECKS.items():
        try:
            found = list(look(cluster))
        except ApiError as error:
            found = [Found("FAIL", str(error), "see what the API server says of it")]
            if error.status in (401, 403):
                found = [Found("warn", f"cannot be looked at: {error}", "run it as somebody who may read this")]
        yield from ((name, each) for each in found)
        if name == "api" and any(each.state == "FAIL" for each in found):
            return
