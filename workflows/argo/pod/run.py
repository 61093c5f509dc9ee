"""Run a batch: the local runner on its nodes, with progress and an exit code that says whether to try again."""

from __future__ import annotations

import argparse
import contextlib
import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from argosy.errors import StepError
from workflows.argo.handoff import FOLDER, Attempts, Handoff, read_handoff
from workflows.argo.pod.message import say_why
from workflows.argo.pod.watch import ArgoProgress, Echo
from workflows.argo.profile import Profile, Retry
from workflows.argo.profile_load import load_profile
from workflows.argo.remote import running
from workflows.local import Budget, RunObserver, RunResult, run_plan
from workflows.plan import Plan, PlannedNode
from workflows.sender import Sender
from workflows.shipping import pipeline_environment

FAILED, AGAIN, OUT_OF_MEMORY = 1, 75, 137  # 75: EX_TEMPFAIL of sysexits.h


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """What the template fills in; ARGOSY_LAST_EXIT is the exit code of the attempt before this one."""
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
    attempts = _after_the_last(Attempts.read(path, arguments.batch), profile.retry)
    attempts.write(path, arguments.batch)
    nodes = handoff.of(arguments.batch)
    with sending(nodes, *handoff.pipeline_of(arguments.batch)) as sender:
        result = run_plan(
            _only(nodes, handoff),
            budget=Budget(nodes[0].resources.cores, max(node.resources.memory_gb for node in nodes)),
            observers=[sender, Echo(), ArgoProgress(len(nodes)), *observers],
            plain=True,
        )
    return _exit_code(result, attempts, profile.retry, path, arguments.batch)


def _after_the_last(attempts: Attempts, retry: Retry) -> Attempts:
    """Counts an attempt that was killed for want of memory: it had no time to do it itself.

    Raises:
        StepError: there were enough.
    """
    if os.environ.get("ARGOSY_LAST_EXIT") != str(OUT_OF_MEMORY):
        return attempts
    count = attempts.out_of_memory + 1
    if count > retry.out_of_memory:
        raise StepError(
            f"ran out of memory {count} times, with more each time; raise the stage's memory: "
            "resources.STAGE.memory_gb of the config, or stages.STAGE.memory of the cluster profile"
        )
    return attempts.model_copy(update={"out_of_memory": count})


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


def _exit_code(result: RunResult, attempts: Attempts, retry: Retry, plan: Path, batch: str) -> int:
    if result.signal:
        return 128 + result.signal
    failed = result.having("failed")
    if not failed:
        return 0
    worst = max(failed, key=lambda each: each.code)
    say_why("\n".join(f"{each.node.id}: {each.message}" for each in failed))
    if any(each.code not in (1, 2) for each in failed):  # killed: in a pod, that is for want of memory
        return OUT_OF_MEMORY
    if worst.code == 2 and all(each.code == 2 for each in failed):
        return 2
    attempts = attempts.model_copy(update={"failures": attempts.failures + 1})
    attempts.write(plan, batch)
    return AGAIN if attempts.failures <= retry.failures else FAILED
