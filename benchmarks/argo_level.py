"""Cost of a level of the graph on Argo: the seconds between two steps, and whose they are.

ARGOSY_TEST_PROFILE=profile.yaml python -m benchmarks.argo_level

Needs a cluster with Argo whose store this machine sees (docs/install.md, Testing a cluster). It runs the first four
stages of the preset `tiny`, one after the other, in a namespace of its own. Of each pod: until the main container
starts (the controller, the scheduler, the node), from there until the step starts (our imports), after the step's end
(metrics, our exit), and until Argo's own container has ended. Kubernetes tells whole seconds, so single pods are off
by one; the means are over all. The last line is JSON.
"""

import json
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path
from statistics import mean
from typing import Any

from argosy.core.store.files import read_record
from argosy.core.store.step_files import RUN
from benchmarks.argo_fanout import open_profile
from tests.cluster.cluster import Cluster, pod_nodes
from tests.cluster.namespace import own_namespace
from workflows.argo.client.view import seconds

STAGES = ("data", "clean", "tokenizer", "tokenize")
PARTS = ("before", "imports", "step", "after", "executor")


def main() -> None:
    """Measure and print."""
    given = open_profile()
    storage = given.storage.model_copy(update={"directory": "benchmark"})
    profile = given.model_copy(update={"storage": storage, "namespace": f"{given.namespace}-benchmark"})
    cluster, store = Cluster(profile), Path(storage.node_directory)
    if reason := cluster.missing():
        sys.exit(f"no cluster: {reason}")
    shutil.rmtree(store, ignore_errors=True)
    store.mkdir()
    store.chmod(0o777)
    with own_namespace(profile.namespace, like=given.namespace):
        cluster.install()
        name = cluster.submit(to=STAGES[-1])
        pods = last_pods(cluster, name)
    rows = {stage: parts(pods[stage], store) for stage in STAGES}
    print(f"{'':10}" + "".join(f"{part:>10}" for part in PARTS))
    for stage, row in rows.items():
        print(f"{stage:10}" + "".join(f"{row[part]:10.1f}" for part in PARTS))
    means = {part: round(mean(row[part] for row in rows.values()), 2) for part in PARTS}
    ours = means["imports"] + means["after"]
    print(json.dumps({"name": "argo_level", "unit": "s/level", "ours": round(ours, 2), **means}))
    shutil.rmtree(store, ignore_errors=True)


def last_pods(cluster: Cluster, name: str) -> Mapping[str, Mapping[str, Any]]:
    """Times of the pods by stage, read while they are there."""
    found: dict[str, Mapping[str, Any]] = {}

    def look() -> bool:
        nodes = {node["id"]: node for node in pod_nodes(cluster.get(name))}
        for pod in cluster.pods(name):
            node = nodes.get((pod.metadata.annotations or {}).get("workflows.argoproj.io/node-id", ""))
            ended = {each.name: each.state.terminated for each in pod.status.container_statuses or []}
            if node and all(ended.get(each) for each in ("main", "wait")):
                stage = node["displayName"].partition("(")[0]
                inputs = {each["name"]: each["value"] for each in node["inputs"]["parameters"]}
                found[stage] = {"asked": seconds(node["startedAt"]), "batch": inputs.get("batch", ""), **ended}
        return cluster.phase(name) in ("Succeeded", "Failed", "Error") and {*STAGES} <= {*found}

    cluster.until(look, f"the end of {name}")
    return found


def parts(pod: Mapping[str, Any], store: Path) -> dict[str, float]:
    """Seconds of a pod's parts."""
    record = read_record(store / pod["batch"] / RUN)
    began, ended = float(record["started"]), float(record["ended"])
    main, wait = pod["main"], pod["wait"]
    started, finished = main.started_at.timestamp(), main.finished_at.timestamp()
    return {"before": started - pod["asked"], "imports": began - started, "step": ended - began,
            "after": finished - ended, "executor": wait.finished_at.timestamp() - finished}  # fmt: skip


if __name__ == "__main__":
    main()
