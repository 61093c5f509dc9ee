"""The exit handler: the workflow's true status reaches MLflow, with metrics that pods had no time to send."""

import argparse
import os
import time
from pathlib import Path

from argosy.core.store.files import read_record, write_json
from argosy.core.store.lease import live_holder, stale_after
from argosy.core.store.step_files import TRACKING, parts_to_retry, read_done
from argosy.core.tracking.tracker import end_run
from workflows.argo.attempts import NONE, say_why
from workflows.argo.handoff import FOLDER, read_handoff
from workflows.argo.objectstore.pods import concluding
from workflows.argo.profile.profile import Profile
from workflows.local.shipping import PipelineTracker, ship

CONCLUDED = "concluded.json"  # how it ended is known
FINISHED = "finished.json"  # and MLflow was told
KILLED = "KILLED"  # stopped, terminated, deleted
STATUS = {"Succeeded": "FINISHED", "Failed": "FAILED", "Error": "FAILED"}
LAST = "exit.json"  # what had failed when the exit handler ran last
NOTHING_RAN = (
    "this retry has started nothing, since no pod had failed: the workflow was stopped just as one ended well, or "
    "while it waited for a person. Retry it with 'Restart successful' and the node field selector displayName=plan "
    "(argo retry {0} --restart-successful --node-field-selector displayName=plan), or submit it again; finished steps "
    "are not repeated"
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments that the template fills in, beside ARGOSY_STOPPED and ARGOSY_FAILURES."""
    parser.add_argument("--status", required=True)


def run(profile: Profile, arguments: argparse.Namespace) -> int:
    """Note how the workflow ended, and send what is left. Return 1 where it was retried and nothing came of it."""
    with concluding(profile, arguments.workflow):
        folder = Path(profile.storage.root) / FOLDER / arguments.workflow
        stopped = os.environ.get("ARGOSY_STOPPED") == "true"
        if (plan := folder / "plan.json").is_file():
            conclude(plan, final_status(arguments.status, stopped=stopped) or KILLED)
        else:
            print("nothing was started: the plan failed, or there was nothing to do")
        failed, idle = os.environ.get("ARGOSY_FAILURES", NONE), False
        # Where the failed nodes are those of an earlier end, nothing ran in between; but this pod's first attempt
        # may have noted the same end.
        if folder.is_dir() and os.environ.get("ARGOSY_RETRY", "0") == "0":
            idle = failed != NONE and read_record(folder / LAST).get("failed") == failed
            write_json(folder / LAST, {"failed": failed})
    if idle:
        say_why(NOTHING_RAN.format(arguments.workflow))
    return int(idle)


def final_status(phase: str, *, stopped: bool) -> str | None:
    """Map a phase of Argo's to the workflow's status in MLflow; None while it goes on."""
    return KILLED if stopped and phase in STATUS and phase != "Succeeded" else STATUS.get(phase)


def conclude(path: Path, status: str) -> None:
    """Give the pipeline's run its final status, and killed nodes, which had no time to, theirs.

    Both the exit handler and the reconciler end here. What MLflow does not take stays in the store, and the reconciler
    sends it later."""
    handoff = read_handoff(path)
    deadline = time.monotonic() + stale_after() + 1
    for directory in (Path(node["dir"]) for node in handoff.nodes.values()):
        done = read_done(directory)
        finished = done and not parts_to_retry(done)
        if not (directory / TRACKING).is_dir() or finished:
            continue
        while (holder := live_holder(directory)) and time.monotonic() <= deadline:
            time.sleep(0.5)  # a pod that was just killed looks alive for a while
        if not holder:  # else another workflow runs this node
            end_run(directory / TRACKING, "FINISHED" if done else KILLED)
    for pipeline, line in handoff.pipelines.items():
        PipelineTracker(Path(handoff.store), pipeline, line).finish(status)
    print(f"{path.parent.name}: {status}", flush=True)
    write_json(path.parent / CONCLUDED, {"status": status})
    if ship(handoff.store):
        write_json(path.parent / FINISHED, {"status": status})
