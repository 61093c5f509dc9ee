"""The exit handler: the workflow's true status reaches MLflow, and so does what pods had no time to send."""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from pathlib import Path

from argosy.lease import live_holder
from argosy.step_files import TRACKING, read_done
from argosy.storage import write_json
from argosy.tracking import Tracker
from argosy.tracking.pipeline import PipelineTracker
from workflows.argo.handoff import FOLDER, Handoff, read_handoff
from workflows.argo.profile_load import load_profile
from workflows.argo.remote import concluding
from workflows.local.process import ROOT
from workflows.sender import COMMAND

CONCLUDED = "concluded.json"  # how it ended is known
FINISHED = "finished.json"  # and MLflow was told
STATUS = {"Succeeded": "FINISHED", "Failed": "FAILED", "Error": "FAILED"}
STOPPED = "workflow shutdown with strategy"  # Argo's words on each node that `argo stop` ended


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """What the template fills in; ARGOSY_FAILURES holds Argo's list of failed nodes."""
    parser.add_argument("--workflow", required=True)
    parser.add_argument("--profile", required=True)
    parser.add_argument("--status", required=True)


def run(arguments: argparse.Namespace) -> int:
    """Note how the workflow ended, and send all that is left."""
    profile = load_profile(arguments.profile)
    with concluding(profile, arguments.workflow):
        return _conclude(Path(profile.storage.root) / FOLDER / arguments.workflow / "plan.json", arguments.status)


def _conclude(path: Path, phase: str) -> int:
    if not path.is_file():
        print("nothing was started: the plan failed, or there was nothing to do")
        return 0
    stopped = STOPPED in os.environ.get("ARGOSY_FAILURES", "").lower()
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
    for node in handoff.nodes.values():
        directory = Path(node["dir"])
        if not (directory / TRACKING).is_dir() or read_done(directory) is not None or live_holder(directory):
            continue
        tracker = Tracker(directory / TRACKING)
        if tracker.last_status == "RUNNING":
            tracker.status("KILLED")
        tracker.close()
