"""The exit handler: the workflow's true status reaches MLflow, and so does what pods had no time to send."""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from pathlib import Path

from argosy.lease import live_holder, stale_after
from argosy.step_files import TRACKING, read_done, to_do_again
from argosy.storage import read_record, write_json
from argosy.tracking import Tracker
from argosy.tracking.pipeline import PipelineTracker
from workflows.argo.failures import NONE
from workflows.argo.handoff import FOLDER, Handoff, read_handoff
from workflows.argo.pod.message import say_why
from workflows.argo.profile_load import load_profile
from workflows.argo.remote import concluding
from workflows.local.process import ROOT
from workflows.sender import COMMAND

CONCLUDED = "concluded.json"  # how it ended is known
FINISHED = "finished.json"  # and MLflow was told
STATUS = {"Succeeded": "FINISHED", "Failed": "FAILED", "Error": "FAILED"}
LAST = "exit.json"  # what had failed when the exit handler ran last
NOTHING_RAN = (
    "this retry has started nothing, since no pod had failed: the workflow was stopped just as one ended well, or "
    "while it waited for a person. Retry it with 'Restart successful' and the node field selector displayName=plan "
    "(argo retry {0} --restart-successful --node-field-selector displayName=plan), or submit it again: what is done "
    "stays done"
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """What the template fills in; ARGOSY_STOPPED and ARGOSY_FAILURES are of `workflows.argo.failures`."""
    parser.add_argument("--workflow", required=True)
    parser.add_argument("--profile", required=True)
    parser.add_argument("--status", required=True)


def run(arguments: argparse.Namespace) -> int:
    """Note how the workflow ended, and send all that is left. 1: it was retried, and nothing came of it."""
    profile = load_profile(arguments.profile)
    with concluding(profile, arguments.workflow):
        folder = Path(profile.storage.root) / FOLDER / arguments.workflow
        code = _conclude(folder / "plan.json", arguments.status)
        idle = folder.is_dir() and _same_as_last(folder / LAST)
    if idle:
        say_why(NOTHING_RAN.format(arguments.workflow))
    return 1 if idle else code


def _same_as_last(file: Path) -> bool:
    """Whether the nodes that failed are those of an end before this one: nothing ran in between. Notes them."""
    failed = os.environ.get("ARGOSY_FAILURES", NONE)
    if os.environ.get("ARGOSY_RETRY", "0") != "0":
        return False  # this pod follows one that noted the same end
    same = failed != NONE and read_record(file).get("failed") == failed
    write_json(file, {"failed": failed})
    return same


def _conclude(path: Path, phase: str) -> int:
    if not path.is_file():
        print("nothing was started: the plan failed, or there was nothing to do")
        return 0
    stopped = phase != "Succeeded" and os.environ.get("ARGOSY_STOPPED") == "true"
    status = "KILLED" if stopped else STATUS.get(phase, "KILLED")
    return conclude(path, status)


def conclude(path: Path, status: str) -> int:
    """Give the pipeline's run its final status, and nodes that were killed without a word theirs."""
    handoff = read_handoff(path)
    _bury(handoff)
    for pipeline, line in handoff.pipelines.items():
        PipelineTracker(Path(handoff.store), pipeline, line).finish(status)
    print(f"{path.parent.name}: {status}", flush=True)
    write_json(path.parent / CONCLUDED, {"status": status})
    command = [sys.executable, *COMMAND, "--store", handoff.store, "--once"]
    if subprocess.run(command, cwd=ROOT, check=False).returncode == 0:
        write_json(path.parent / FINISHED, {"status": status})
    return 0  # what MLflow did not take stays in the store; the reconciler sends it later


def _bury(handoff: Handoff) -> None:
    deadline = time.monotonic() + stale_after() + 1
    for node in handoff.nodes.values():
        directory = Path(node["dir"])
        done = read_done(directory)
        if not (directory / TRACKING).is_dir() or (done and not to_do_again(done)) or not _is_free(directory, deadline):
            continue
        tracker = Tracker(directory / TRACKING)
        if tracker.last_status == "RUNNING":
            tracker.status("FINISHED" if done else "KILLED")
        tracker.close()


def _is_free(directory: Path, deadline: float) -> bool:
    """Waits, since a pod that was just killed looks alive for a while; False: another workflow is at this node."""
    while live_holder(directory):
        if time.monotonic() > deadline:
            return False
        time.sleep(0.5)
    return True
