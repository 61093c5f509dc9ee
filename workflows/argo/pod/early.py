"""Evaluations of the exports that stages leave on the way, while their pods still train.

One light pod of a workflow waits for the next export; then a pod evaluates it, while another waits for the one after
that. Nothing depends on it: the evaluations after a stage hold the same nodes, and run what is missing. So waiting may
end at any time, and does once nothing trains any more."""

import argparse
import json
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from argosy.core.store.files import make_directory, write_json
from argosy.model.weights.checkpoint import EXPORTS
from workflows.argo.handoff import FOLDER, Batch, read_handoff, write_output
from workflows.argo.objectstore.mirror import Mirror
from workflows.argo.objectstore.node import whole
from workflows.argo.objectstore.pods import mirror_of
from workflows.argo.profile.profile import Profile
from workflows.plan import PlannedNode

EARLY = "early"  # output of the plan: the queue, as batches in the order in which their exports are likely to come
FOUND, TASK, REST = "batch", "task", "rest"  # outputs of a pod that waits: "" where no export comes any more
POLL_S = 3.0
_OVER = "over.json"  # note in a workflow's folder: nothing trains any more


def early_batches(assigned: Mapping[str, Sequence[PlannedNode]], patches: Mapping[str, str], pipeline: str,
                  parallelism: int) -> dict[str, Batch]:
    """Make a batch of each export that is evaluated early; none where the pod that waits would fill `parallelism`.

    `patches`: the tasks with the patches of the pods of those that have none themselves."""
    todo = [(task, node) for task, nodes in assigned.items() for node in nodes if node.to_run]
    running = {node.dir for _, node in todo}
    found: dict[str, Batch] = {}
    for task, node in todo:
        export = Path(node.early)
        if node.early and str(export.parents[1]) in running:
            name = f"{task}-{pipeline}-{export.name}"
            before = found[name].nodes if name in found else ()
            found[name] = Batch(task=patches.get(task, task), nodes=(*before, node.id))
    least = 3 if any(node.resources.nodes > 1 for _, node in todo) else 2  # such a stage has two pods, and its JobSet
    if found and parallelism < least:
        print(f"evaluate.follow: parallelism of the profile is {parallelism}, and {least} are needed: exports are "
              "evaluated after their stages", flush=True)
        return {}
    return found


def wait(profile: Profile, arguments: argparse.Namespace) -> int:
    """Wait for one of the exports of a queue of batches, and give out its batch and the rest; return 0."""
    root, folder = Path(profile.storage.root), f"{FOLDER}/{arguments.workflow}"
    mirror = mirror_of(profile) if profile.storage.uri else None
    if mirror:
        mirror.pull_below(folder, wanted=lambda name: name.endswith("/plan.json"))
    handoff = read_handoff(root / folder / "plan.json")
    left = {batch: Path(handoff.of(batch)[0].early) for batch in json.loads(arguments.queue)}
    while not (found := _first(left, mirror)):
        if (root / folder / _OVER).exists() or (mirror and mirror.remote.read(f"{folder}/{_OVER}") is not None):
            print("nothing trains any more: no export comes")
            break
        time.sleep(POLL_S)
    rest = [batch for batch in left if batch != found] if found else []
    outputs = {FOUND: found, TASK: handoff.batches[found].task if found else "", REST: json.dumps(rest)}
    for name, text in outputs.items():
        write_output(arguments.outputs, name, text)
    return 0


def _first(left: Mapping[str, Path], mirror: Mirror | None) -> str:
    """Return the first batch whose export is there, or ""; a bucket is asked once for each stage."""
    if mirror is None:
        return next((batch for batch, export in left.items() if export.is_dir()), "")
    stages = {stage: whole(mirror.remote, stage)[1] for stage in {export.parents[1].name for export in left.values()}}
    return next((batch for batch, export in left.items() if any(
        file.startswith(f"{EXPORTS}/{export.name}/") for file in stages[export.parents[1].name])), "")


def end(profile: Profile, arguments: argparse.Namespace) -> int:
    """Note that nothing trains any more, so that nobody waits for exports; return 0."""
    write_json(make_directory(Path(profile.storage.root, FOLDER, arguments.workflow)) / _OVER, {})
    if profile.storage.uri:
        mirror_of(profile).push(f"{FOLDER}/{arguments.workflow}")
    return 0
