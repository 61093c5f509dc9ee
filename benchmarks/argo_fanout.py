"""What a part of a fan-out costs on Argo, beside a plain `withParam` of one pod a part.

ARGOSY_TEST_PROFILE=profile.yaml python -m benchmarks.argo_fanout

Needs a cluster with Argo (see docs/argo.md) whose store this machine sees. Both run `steps.noop` in the same image,
with the same number of pods at a time: ours deals all parts to batches, the peer starts a pod for each of fewer parts.
The last line is JSON; `ratio` is the peer's elapsed seconds a part over ours, `workflow_bytes` the size of our Workflow
object at its end.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from argosy.step_files import OUTPUTS
from steps.noop import NoopConfig
from tests.cluster.cluster import GROUP, VERSION, Cluster
from workflows.argo.handoff import Handoff, deal
from workflows.argo.manifests import manifests
from workflows.argo.pod_spec import memory_mb, pod_patch
from workflows.argo.profile import Profile
from workflows.argo.profile_load import load_profile
from workflows.node import Node, Resources
from workflows.plan import PlannedNode, plan

RESOURCES = Resources(1, 0.5)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser("python -m benchmarks.argo_fanout", description=__doc__)
    parser.add_argument("--parts", type=int, default=10_000)
    parser.add_argument("--pods", type=int, default=10, help="that ours are dealt to")
    parser.add_argument("--peer-parts", type=int, default=40)
    args = parser.parse_args()
    cluster, profile = open_cluster()
    ours, size = ours_s(cluster, profile, args.parts, args.pods)
    peer = peer_s(cluster, profile, args.peer_parts)
    print(f"elapsed a part: Argosy {ours:.4f} s ({args.parts} parts in {args.pods} pods, Workflow of {size} bytes), "
          f"withParam {peer:.2f} s ({args.peer_parts} parts)")  # fmt: skip
    figures = {"ratio": peer / ours, "ours": ours, "peer": peer, "workflow_bytes": size}
    rounded = {key: round(value, 5) for key, value in figures.items()}
    print(json.dumps({"name": "argo_fanout", "unit": "s/part", **rounded}))


def open_cluster() -> tuple[Cluster, Profile]:
    """The cluster and its profile; exits 2 where there is none."""
    name = os.environ.get("ARGOSY_TEST_PROFILE", "")
    if not name:
        sys.exit("ARGOSY_TEST_PROFILE names no cluster profile (see docs/argo.md)")
    profile = load_profile(name)
    cluster = Cluster(profile)
    if reason := cluster.missing():
        sys.exit(f"no cluster: {reason}")
    cluster.install()
    return cluster, profile


def ours_s(cluster: Cluster, profile: Profile, count: int, pods: int) -> tuple[float, int]:
    """(elapsed seconds a part, bytes of the Workflow) of `count` parts dealt to `pods` pods."""
    nodes = parts(profile, count)
    batches = deal("fan-out", nodes, "benchmark", pods)
    handoff = Handoff(
        store=profile.storage.root, line="benchmark", pipeline="benchmark",
        nodes={node.id: node.model_dump(mode="json") for node in nodes}, batches=batches,
    )  # fmt: skip
    patch = json.dumps(pod_patch(profile, "noop", "data", RESOURCES))
    template = step_template(profile)
    items = [{"name": "batch", "value": "{{item}}"}, {"name": "patch", "value": patch},
             {"name": "memory", "value": str(memory_mb(profile, "noop", RESOURCES))}]  # fmt: skip
    started = time.perf_counter()
    ended = run(cluster, profile, template, items, list(batches), handoff)
    seconds = time.perf_counter() - started
    missing = [node.id for node in nodes if not (seen_here(profile) / Path(node.dir).name / OUTPUTS).is_file()]
    if missing:
        sys.exit(f"{len(missing)} parts are not done, such as {missing[0]}")
    return seconds / count, len(json.dumps(ended))


def peer_s(cluster: Cluster, profile: Profile, count: int) -> float:
    """Elapsed seconds a part of `count` pods of plain Argo."""
    template = step_template(profile)
    container = template["container"]
    out = f"{profile.storage.root}/peer-{{{{inputs.parameters.batch}}}}"
    container["command"], container["args"] = ["python", "-m", "steps.noop"], ["--out", out]
    for key in ("podSpecPatch", "retryStrategy", "synchronization"):
        template.pop(key)
    shutil.rmtree(seen_here(profile), ignore_errors=True)
    started = time.perf_counter()
    run(cluster, profile, template, [{"name": "batch", "value": "{{item}}"}], [str(n) for n in range(count)])
    return (time.perf_counter() - started) / count


def run(
    cluster: Cluster, profile: Profile, template: dict[str, Any], parameters: Sequence[dict[str, str]],
    items: Sequence[str], handoff: Handoff | None = None,
) -> dict[str, Any]:  # fmt: skip
    """Run a Workflow with one task over `items` to its end."""
    spec = dict(manifests(profile)["lifecycle"][0]["spec"])
    spec.pop("onExit")
    task = {"name": "parts", "template": template["name"], "withItems": list(items),
            "arguments": {"parameters": list(parameters)}}  # fmt: skip
    spec["templates"] = [{"name": "main", "dag": {"tasks": [task]}}, template]
    template["inputs"] = {"parameters": [{"name": each["name"]} for each in parameters]}
    name = f"fan-out-{time.time_ns()}"
    if handoff:
        here = handoff.model_copy(update={"store": str(seen_here(profile))})
        path = here.write(name)
        path.write_text(handoff.model_dump_json())
        for folder in (path.parent, path.parent.parent, path.parent.parent.parent):
            folder.chmod(0o777)  # pods are another user
    body = {"apiVersion": f"{GROUP}/{VERSION}", "kind": "Workflow", "metadata": {"name": name}, "spec": spec}
    cluster.custom().create_namespaced_custom_object(GROUP, VERSION, cluster.namespace, "workflows", body)
    ended = cluster.wait(name)
    if ended["status"]["phase"] != "Succeeded":
        sys.exit(f"{name}: {ended['status']['phase']}: {ended['status'].get('message')}")
    return ended


def parts(profile: Profile, count: int) -> list[PlannedNode]:
    """Parts of one fan-out, a hundred to a process."""
    nodes = [
        Node("noop", "noop", NoopConfig(index=n), part=f"p{n}", resources=RESOURCES, batch=100) for n in range(count)
    ]
    shutil.rmtree(seen_here(profile), ignore_errors=True)
    return list(plan(nodes, profile.storage.root).nodes)


def step_template(profile: Profile) -> dict[str, Any]:
    """The template of a step, as the lifecycle has it."""
    [template] = [each for each in manifests(profile)["lifecycle"][0]["spec"]["templates"] if each["name"] == "step"]
    return dict(template)


def seen_here(profile: Profile) -> Path:
    """The store as this machine sees it."""
    if not profile.storage.host_path:
        sys.exit("the profile's store is a claim, which this machine does not see")
    return Path(profile.storage.host_path) / profile.storage.directory


if __name__ == "__main__":
    main()
