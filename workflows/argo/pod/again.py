"""Whether a batch is tried again: how its attempts ended, counted by cause, and what that means for the next one."""

from __future__ import annotations

import os
import signal
from pathlib import Path

from argosy.errors import StepError
from workflows.argo import memory
from workflows.argo.handoff import Attempts
from workflows.argo.pod.message import NEEDS, say_why
from workflows.argo.profile_settings import Retry
from workflows.local import RunResult

FAILED, AGAIN, OUT_OF_MEMORY = 1, 75, 137  # 75: EX_TEMPFAIL of sysexits.h
_TOO_LITTLE = (
    "ran out of memory {} times, with more each time; raise the stage's memory: "
    "resources.STAGE.memory_gb of the config, or stages.STAGE.memory of the cluster profile"
)


def so_far(plan: Path, batch: str, retry: Retry) -> Attempts:
    """How the attempts before this one ended. One that was killed had no time to count that itself.

    Raises:
        StepError: there were enough.
    """
    first = os.environ.get("ARGOSY_RETRY") == "0"  # or somebody has retried the workflow
    attempts, cause = Attempts() if first else Attempts.read(plan, batch), os.environ.get("ARGOSY_LAST_CAUSE")
    if cause == memory.OUT_OF_MEMORY:
        attempts = attempts.model_copy(update={"out_of_memory": attempts.out_of_memory + 1})
    elif cause == memory.DEADLINE:
        attempts = attempts.model_copy(update={"failures": attempts.failures + 1})
    attempts.write(plan, batch)
    if attempts.out_of_memory > retry.out_of_memory:
        raise StepError(_TOO_LITTLE.format(attempts.out_of_memory))
    if attempts.failures > retry.failures:
        raise StepError(f"failed {attempts.failures} times, the last time by its deadline (deadline_s of the profile)")
    return attempts


def lacks_memory(attempts: Attempts) -> bool:
    """Whether this pod has less memory than attempts before it were short of: then the next one is to have more."""
    has = int(os.environ.get("ARGOSY_MEMORY_STEP") or attempts.out_of_memory)
    if has < attempts.out_of_memory:
        say_why(f"{NEEDS.format(attempts.out_of_memory)} an earlier attempt ran out of memory with less")
        return True
    return False


def exit_code(result: RunResult, attempts: Attempts, retry: Retry, plan: Path, batch: str) -> int:
    """What the pod ends with; counts what it ends for."""
    if result.signal:
        return 128 + result.signal
    failed = result.having("failed")
    if not failed:
        return 0
    why = "\n".join(f"{each.node.id}: {each.message}" for each in failed)
    if any(each.code == -signal.SIGKILL for each in failed):  # in a pod, that is for want of memory
        return _out_of_memory(why, attempts, retry, plan, batch)
    say_why(why)
    if all(each.code == 2 for each in failed):
        return 2
    attempts = attempts.model_copy(update={"failures": attempts.failures + 1})
    attempts.write(plan, batch)
    return AGAIN if attempts.failures <= retry.failures else FAILED


def _out_of_memory(why: str, attempts: Attempts, retry: Retry, plan: Path, batch: str) -> int:
    """The kernel killed a step and left this process alone."""
    count = attempts.out_of_memory + 1
    attempts.model_copy(update={"out_of_memory": count}).write(plan, batch)
    if count > retry.out_of_memory:
        say_why(f"{why}\n{_TOO_LITTLE.format(count)}")
        return FAILED
    say_why(f"{NEEDS.format(count)} {why}")
    return OUT_OF_MEMORY
