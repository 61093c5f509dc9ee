"""Cost of a part of a fan-out on Argo, beside a plain `withParam` of one pod a part.

ARGOSY_TEST_PROFILE=profile.yaml python -m benchmarks.argo_fanout

Needs a cluster with Argo (see docs/argo.md) whose store this machine sees, and a data image that has `benchmarks`.
Both run `steps.noop` in the same image, with the same number of pods at a time. Ours is a WorkflowTemplate as
`lifecycle` and `evaluate` are made, with its plan, its exit handler and the profile's number of batches; the peer
starts a pod for each of fewer parts. `plan_pod` is the plan pod of ours. The last line is JSON; `ratio` is the peer's
elapsed seconds a part over ours, `workflow_bytes` the size of our Workflow object at its end. The store's directory
`benchmark` is emptied, and the profile applied again at the end.
"""

import argparse
import json
import os
import shutil
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from argosy.core.store.step_files import OUTPUTS
from steps.noop import NoopConfig
from workflows.argo.client.submission import submission
from workflows.argo.handoff import OUTPUTS as PARAMETERS
from workflows.argo.handoff import Task
from workflows.argo.pod.plan import hand_over
from workflows.argo.profile.profile import Profile, load_profile
from workflows.graph import Node, Resources
from workflows.lifecycle import LifecycleConfig
from workflows.plan import plan

if TYPE_CHECKING:  # which the image of the pod lacks
    from tests.cluster.cluster import Cluster

PARTS = Task(name="noop", stage="noop", own=frozenset(), upstream=(), needs="data")
RESOURCES = Resources(1, 0.5)
PLAN = "from benchmarks.argo_fanout import plan_pod; plan_pod()"


def main() -> None:
    """Measure and print."""
    from tests.cluster.cluster import Cluster

    parser = argparse.ArgumentParser("python -m benchmarks.argo_fanout", description=__doc__)
    parser.add_argument("--parts", type=int, default=10_000)
    parser.add_argument("--batches", type=int, default=0, help="that ours are dealt to (default: the profile's)")
    parser.add_argument("--peer-parts", type=int, default=40)
    args = parser.parse_args()
    if not (name := os.environ.get("ARGOSY_TEST_PROFILE", "")):
        sys.exit("ARGOSY_TEST_PROFILE names no cluster profile (see docs/argo.md)")
    given = load_profile(name)
    storage = given.storage.model_copy(update={"directory": "benchmark"})
    profile = given.model_copy(update={"batches": args.batches or given.batches, "storage": storage})
    cluster = Cluster(profile)
    if reason := cluster.missing():
        sys.exit(f"no cluster: {reason}")
    cluster.install()  # pods read it
    try:
        ours, size = ours_s(cluster, profile, args.parts)
        peer = peer_s(cluster, profile, args.peer_parts)
    finally:
        Cluster(given).install()
    print(f"elapsed a part: Argosy {ours:.4f} s ({args.parts} parts, at most {profile.batches} batches, "
          f"Workflow of {size} bytes), withParam {peer:.2f} s ({args.peer_parts} parts)")  # fmt: skip
    figures = {"ratio": peer / ours, "ours": ours, "peer": peer, "workflow_bytes": size}
    rounded = {key: round(value, 5) for key, value in figures.items()}
    print(json.dumps({"name": "argo_fanout", "unit": "s/part", **rounded}))


def ours_s(cluster: "Cluster", profile: Profile, count: int) -> tuple[float, int]:
    """(elapsed seconds a part, bytes of the Workflow) of `count` parts, planned, run and concluded."""
    spec = fan_out(profile, count)
    shutil.rmtree(seen_here(profile), ignore_errors=True)
    started = time.perf_counter()
    ended = run(cluster, spec)
    seconds = time.perf_counter() - started
    nodes = plan(nodes_of(count), profile.storage.root).nodes
    missing = [node.id for node in nodes if not (seen_here(profile) / Path(node.dir).name / OUTPUTS).is_file()]
    if missing:
        sys.exit(f"{len(missing)} parts are not done, such as {missing[0]}")
    return seconds / count, len(json.dumps(ended))


def fan_out(profile: Profile, count: int) -> dict[str, Any]:
    """The spec of a template with one fan-out, as the lifecycle's is made; only what is planned is another."""
    from workflows.argo.manifests.workflow import Planned, common_fields, workflow_template

    planned = Planned(
        name="fan-out", title="fan-out", description="Many small parts.", fields=common_fields(profile), tasks=[PARTS],
        plan_args=["--parts", str(count)],
    )  # fmt: skip
    spec: dict[str, Any] = workflow_template(profile, planned).to_dict()["spec"]
    [first] = [each for each in spec["templates"] if each["name"] == "plan"]
    first["container"]["command"] = ["python", "-c", PLAN]
    first["container"]["resources"]["limits"]["memory"] = "2Gi"
    return spec


def peer_s(cluster: "Cluster", profile: Profile, count: int) -> float:
    """Elapsed seconds a part of `count` pods of plain Argo."""
    spec = fan_out(profile, count)
    spec.pop("onExit")
    [template] = [each for each in spec["templates"] if each["name"] == "step"]
    container = template["container"]
    out = f"{profile.storage.root}/peer-{{{{inputs.parameters.batch}}}}"
    container["command"], container["args"] = ["python", "-m", "steps.noop"], ["--out", out]
    container["env"] = [each for each in container["env"] if "lastRetry" not in each["value"]]
    for key in ("podSpecPatch", "retryStrategy", "synchronization"):
        template.pop(key)
    container["env"] = [each for each in container["env"] if "{{retries}}" not in each["value"]]
    template["inputs"] = {"parameters": [{"name": "batch"}]}
    task = {"name": "parts", "template": "step", "withItems": [str(n) for n in range(count)],
            "arguments": {"parameters": [{"name": "batch", "value": "{{item}}"}]}}  # fmt: skip
    spec["templates"] = [{"name": "main", "dag": {"tasks": [task]}}, template]
    shutil.rmtree(seen_here(profile), ignore_errors=True)
    started = time.perf_counter()
    run(cluster, spec)
    return (time.perf_counter() - started) / count


def run(cluster: "Cluster", spec: dict[str, Any]) -> dict[str, Any]:
    """Run a template's spec to its end, as a Workflow that refers to it; the template is removed then."""
    from tests.cluster.cluster import GROUP, VERSION

    name = f"fan-out-{time.time_ns()}"
    metadata = {"name": name}
    template = {"apiVersion": f"{GROUP}/{VERSION}", "kind": "WorkflowTemplate", "metadata": metadata, "spec": spec}
    custom, where = cluster.custom(), (GROUP, VERSION, cluster.namespace)
    custom.create_namespaced_custom_object(*where, "workflowtemplates", template)
    time.sleep(3)  # until the controller has seen it
    try:
        body = submission(name, cluster.namespace, {})
        made = custom.create_namespaced_custom_object(*where, "workflows", body)["metadata"]["name"]
        ended = cluster.wait(made)
        if ended["status"]["phase"] == "Succeeded":
            cluster.until(lambda: cluster.get(made)["status"].get("finishedAt"), f"the exit handler of {made}")
    finally:
        custom.delete_namespaced_custom_object(*where, "workflowtemplates", name)
    if ended["status"]["phase"] != "Succeeded":
        sys.exit(f"{made}: {ended['status']['phase']}: {ended['status'].get('message')}")
    return cluster.get(made)


def seen_here(profile: Profile) -> Path:
    """The store as this machine sees it."""
    if not profile.storage.host_path:
        sys.exit("the profile's store is a claim, which this machine does not see")
    return Path(profile.storage.host_path) / profile.storage.directory


def nodes_of(count: int) -> list[Node]:
    """Parts of one fan-out, a hundred to a process."""
    return [
        Node("noop", "noop", NoopConfig(index=n), part=f"p{n}", resources=RESOURCES, batch=100) for n in range(count)
    ]


def plan_pod() -> None:
    """Plan many small parts, and hand them over by what hands a lifecycle's over: Argo's output parameters."""
    parser = argparse.ArgumentParser("plan_pod")
    parser.add_argument("--parts", type=int, required=True)
    for name in ("--workflow", "--profile", "--image-tag", "--priority"):
        parser.add_argument(name, default="")
    arguments, _ = parser.parse_known_args()
    arguments.outputs = Path(PARAMETERS)
    profile = load_profile(arguments.profile)
    planned = plan(nodes_of(arguments.parts), profile.storage.root)
    hand_over(planned, LifecycleConfig(name="fan-out"), "fan-out", [PARTS], profile, arguments)


if __name__ == "__main__":
    main()
