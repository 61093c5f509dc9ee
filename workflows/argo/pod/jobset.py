"""The JobSet of a stage on several nodes: a pod for each, which joins the launcher in the stage's own pod.

That pod holds the lease, logs, reports progress and is retried as any other; it needs no device. The JobSet is made by
a resource template beside it and belongs to the workflow. Its pods are replaced one by one, and wait for a launcher
that is started again; without one for JOIN_S they fail, and with them the JobSet. So it does where a pod is killed for
want of memory: the next one's have more."""

import argparse
import json
import os
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from uuid import uuid4

from argosy.core.errors import InputError
from argosy.core.step.ranks.launcher import ADDRESS, JOIN, LOST, NODE
from argosy.core.step.ranks.member import JOIN_WAIT, JOINED
from argosy.core.store.files import make_directory, write_json
from argosy.core.store.step_files import STATE
from workflows.argo.attempts import KILLED
from workflows.argo.handoff import FOLDER, Task, read_handoff, write_output
from workflows.argo.profile.pods import WORKFLOW_LABEL, Manifest, avoided, away, near, whole_pod
from workflows.argo.profile.profile import Profile, placement_stage
from workflows.graph import Resources
from workflows.plan import PlannedNode

ATTEMPT, JOBSET, RUNTIME, MANIFEST = "__ATTEMPT__", "jobset", "runtime", "ARGOSY_JOBSET"
NODES = "nodes"  # template, and task of a group of the tree, whose JobSets begin with the group's items
TRAINER = "trainer.kubeflow.org/v1alpha1"
JOIN_S, KEPT_S = 120, 300


def of_node(given: Resources) -> Resources:
    """Return what the pod of one node asks for."""
    return replace(given, cores=-(-given.cores // given.nodes), memory_gb=given.memory_gb / given.nodes,
                   processes=given.processes // given.nodes)


def check_nodes(nodes: Sequence[PlannedNode], profile: Profile) -> None:
    """Raise InputError where a stage that is to run asks for several nodes and this cluster cannot give them."""
    for node in nodes:
        if node.resources.nodes == 1:
            continue
        field = f"resources.{node.name}.nodes is {node.resources.nodes}"
        if profile.nodes is None:
            raise InputError(f"{field}, and the profile {profile.name!r} has no `nodes`: install JobSet, set "
                             "`nodes: {}` there and install its manifests again, or leave it at 1")
        if profile.storage.uri:
            raise InputError(f"{field}, and the store is an object store: ranks write one directory together, so the "
                             "profile's storage must be a claim that many pods can write (ReadWriteMany)")
        if profile.of_stage(placement_stage(node.name, node.step)).queued:
            raise InputError(f"{field}, and the profile {profile.name!r} has `queued` for it: its pods wait in the "
                             "queue as it is, and its launcher would wait before them; leave queued out there")
        if node.part:
            raise InputError(f"{field}, allowed: 1, as {node.name} has parts")


def jobset(profile: Profile, task: Task, batch: str, nodes: int, patch: Manifest, memory_mb: int, workflow: str,
           image: str) -> Manifest:
    """Make the JobSet of a task's batch. `patch`: of the pods of one node; `memory_mb`: theirs."""
    assert profile.nodes is not None
    metadata = {"labels": {"app.kubernetes.io/part-of": "argosy", WORKFLOW_LABEL: workflow, **profile.nodes.labels},
                "annotations": dict(profile.nodes.annotations)}
    pod = {"metadata": {**metadata, "annotations": {**profile.nodes.annotations, **profile.queue.annotations(nodes)}},
           "spec": _pod(profile, task, batch, patch, memory_mb, workflow, image)}
    job = {"parallelism": nodes, "completions": nodes, "completionMode": "Indexed",
           "backoffLimit": profile.retry.interruptions,
           "podFailurePolicy": {"rules": [
               {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget"}]},
               {"action": "FailJob", "onExitCodes": {"containerName": "main", "operator": "In",
                                                     "values": [1, 2, KILLED]}}]},
           "template": pod}
    template = {"metadata": {"annotations": dict(profile.queue.of_job(nodes))}, "spec": job}
    # JobSet adds 16 characters.
    own = task.name.lower().replace("_", "-")[:12].rstrip("-")
    name = f"a-{workflow[-20:].lstrip('-.').replace('.', '-')}-{own}-{ATTEMPT}-"
    return {"apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet",
            "metadata": {"generateName": name, "namespace": profile.namespace, **metadata},
            "spec": {"ttlSecondsAfterFinished": KEPT_S, "failurePolicy": {"maxRestarts": 0},
                     "replicatedJobs": [{"name": "node", "replicas": 1, "template": template}]}}


def _pod(profile: Profile, task: Task, batch: str, patch: Manifest, memory_mb: int, workflow: str, image: str
         ) -> Manifest:
    args = ["join", "--workflow", workflow, "--profile", profile.name, "--batch", batch, "--attempt", ATTEMPT]
    made = whole_pod(profile, patch, memory_mb, args, {JOIN_WAIT: str(JOIN_S)})
    made["containers"][0]["image"] = image
    assert profile.nodes is not None
    affinity = {**patch.get("affinity", {}), **near(profile.nodes.near, workflow)}
    own = {"schedulerName": profile.queue.scheduler} if profile.queue.scheduler else {}
    return {"restartPolicy": "Never", **made, **own, "affinity": affinity}


def join(profile: Profile, arguments: argparse.Namespace) -> int:
    """Become the group of ranks of this pod's node, until the launcher says that all is over."""
    path = Path(profile.storage.root) / FOLDER / arguments.workflow / "plan.json"
    (node,) = read_handoff(path).of(arguments.batch)
    joined = _joined(node, arguments.attempt)
    make_directory(joined.parent)
    joined.touch()
    environment = {**os.environ, JOIN: str(Path(node.dir, STATE, ADDRESS)),
                   JOINED: str(joined), NODE: os.environ.get("JOB_COMPLETION_INDEX", "0"), "PYTHONUNBUFFERED": "1"}
    os.execve(sys.executable, [sys.executable, "-m", f"steps.{node.step}"], environment)


def _joined(node: PlannedNode, attempt: str) -> Path:
    return Path(node.dir, STATE, f"joined-{attempt}")


def remake(profile: Profile, arguments: argparse.Namespace) -> int:
    """Write the manifest of a JobSet's next attempt; none after too many, which the launcher is told. Its pods have
    more memory after each attempt that failed though they had a launcher: one was killed, as for want of memory; one
    that loses its machine is replaced. They keep away from the nodes that have failed by now."""
    (node,) = read_handoff(Path(profile.storage.root) / FOLDER / arguments.workflow / "plan.json").of(arguments.batch)
    earlier = [_joined(node, str(number)) for number in range(int(arguments.attempt))]
    if not earlier:
        for name in ("joined-*", LOST):  # of the workflow before it was retried
            for path in Path(node.dir, STATE).glob(name):
                path.unlink()
    killed = sum(joined.exists() for joined in earlier)
    if killed > profile.retry.out_of_memory or len(earlier) > profile.retry.interruptions:
        why = f"{len(earlier)} JobSets failed, {killed} of them though their pods had a launcher"
        print(f"no more are made: {why}")
        write_json(make_directory(Path(node.dir, STATE)) / LOST, {"why": why})
        return _write(arguments.outputs, "", "")
    made = json.loads(os.environ[MANIFEST].replace(ATTEMPT, arguments.attempt))
    # Random, as the JobSet of a workflow before it was retried may be there yet; chosen before it is created, as a pod
    # that creates it may be evicted, and the next one is to find it.
    made["metadata"]["name"] = made["metadata"].pop("generateName") + uuid4().hex[:5]
    pod = made["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]["spec"]
    pod["affinity"] |= away(avoided(profile, Path(profile.storage.root))).get("affinity", {})
    (main,) = pod["containers"]
    for given in main["resources"].values():
        factor = profile.retry.memory_factor ** min(killed, profile.retry.out_of_memory)
        given["memory"] = f"{int(int(given['memory'].removesuffix('Mi')) * factor)}Mi"
    print(f"{killed} of {len(earlier)} attempts lacked memory: each pod has {given['memory']}")
    assert profile.nodes is not None
    runtime, made = train_job(made) if profile.nodes.kind == "TrainJob" else ({}, made)
    labels = {**made["metadata"]["labels"], **profile.queue.labels}  # of a TrainJob, not of the JobSet that it makes
    made["metadata"] = {**made["metadata"], "labels": labels}
    return _write(arguments.outputs, json.dumps(made), json.dumps(runtime))


def _write(outputs: Path, made: str, runtime: str) -> int:
    write_output(outputs, JOBSET, made)
    write_output(outputs, RUNTIME, runtime)
    return 0


def train_job(made: Manifest) -> tuple[Manifest, Manifest]:
    """Make the TrainingRuntime that holds a JobSet, and the TrainJob of it."""
    metadata = made["metadata"]
    template = {"metadata": {key: metadata[key] for key in ("labels", "annotations")}, "spec": made["spec"]}
    reference = {"kind": "TrainingRuntime", "name": metadata["name"]}
    return ({"apiVersion": TRAINER, "kind": "TrainingRuntime", "metadata": metadata, "spec": {"template": template}},
            {"apiVersion": TRAINER, "kind": "TrainJob", "metadata": metadata, "spec": {"runtimeRef": reference}})
