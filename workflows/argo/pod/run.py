"""Run a batch: the local runner on its nodes, with progress and an exit code that says whether to try again."""

from __future__ import annotations

import argparse
import contextlib
import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from workflows.argo.handoff import FOLDER, Handoff, read_handoff
from workflows.argo.pod.again import AGAIN, exit_code, lacks_memory, so_far
from workflows.argo.pod.watch import ArgoProgress, Echo
from workflows.argo.profile import Profile
from workflows.argo.profile_load import load_profile
from workflows.argo.remote import running
from workflows.local import Budget, RunObserver, run_plan
from workflows.plan import Plan, PlannedNode
from workflows.sender import Sender
from workflows.shipping import pipeline_environment


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """What the template fills in; how attempts before ended comes as ARGOSY_RETRY, _LAST_CAUSE, _MEMORY_STEP."""
    parser.add_argument("--workflow", required=True)
    parser.add_argument("--profile", required=True)
    parser.add_argument("--batch", required=True)


def run(arguments: argparse.Namespace) -> int:
    """0; 1 failed for good; 2 wrong input; 75 and 137: worth another attempt; 143: stopped."""
    profile = load_profile(arguments.profile)
    with running(profile, arguments.workflow, arguments.batch) as observers:
        return _run(profile, arguments, observers)


def _run(profile: Profile, arguments: argparse.Namespace, observers: Sequence[RunObserver]) -> int:
    path = Path(profile.storage.root) / FOLDER / arguments.workflow / "plan.json"
    handoff = read_handoff(path)
    attempts = so_far(path, arguments.batch, profile.retry)
    if lacks_memory(attempts):
        return AGAIN
    nodes = handoff.of(arguments.batch)
    with sending(nodes, *handoff.pipeline_of(arguments.batch)) as sender:
        result = run_plan(
            _only(nodes, handoff),
            budget=Budget(nodes[0].resources.cores, max(node.resources.memory_gb for node in nodes)),
            observers=[sender, Echo(), ArgoProgress(len(nodes)), *observers],
            plain=True,
        )
    return exit_code(result, attempts, profile.retry, path, arguments.batch)


@contextlib.contextmanager
def sending(nodes: Sequence[PlannedNode], pipeline: str, line: str) -> Iterator[Sender]:
    """What `nodes` log inside is sent to MLflow, as part of a pipeline run of a model line."""
    os.environ |= pipeline_environment(pipeline, line)
    for node in nodes:
        Path(node.dir).mkdir(parents=True, exist_ok=True)
    sender = Sender(["--node", *(node.dir for node in nodes)])
    sender.start()
    try:
        yield sender
    finally:
        sender.close()


def _only(nodes: Sequence[PlannedNode], handoff: Handoff) -> Plan:
    """A plan of these nodes alone: what they depend on was done before this task."""
    alone = tuple(node.model_copy(update={"upstream": ()}) for node in nodes)
    return Plan(store=handoff.store, stages=tuple(dict.fromkeys(node.name for node in nodes)), nodes=alone)
