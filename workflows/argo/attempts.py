"""The end of a pod: its reason, the number of earlier attempts by cause, and what the next attempt gets.

Four carriers, all here, since each reaches what the others do not. The termination message reaches the UI and, of the
last attempt alone, the template's expressions, which choose the next attempt's memory. The variables ARGOSY_RETRY,
ARGOSY_LAST_CAUSE and ARGOSY_MEMORY_STEP carry what those expressions found to the next pod. A file beside the plan
counts over all attempts. So a pod with more memory than the first says so in its message, which outlives it; one with
less than the attempts before it needed (the last one was deleted, say, and left no message) asks for more and ends.
An output parameter, global in the workflow, reaches other tasks too: the nodes that no later pod is to be on."""

import contextlib
import os
import signal
import sys
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from argosy.core.errors import StepError
from argosy.core.store.files import make_directory, read_record, write_json

if TYPE_CHECKING:  # a pod imports this module before anything that takes memory
    from workflows.argo.profile.profile import Retry
    from workflows.local.view import RunResult

TERMINATION_LOG = Path("/dev/termination-log")
_MOST = 2048  # characters that Kubernetes keeps
HAS, NEEDS = "[memory step {}]", "[needs memory step {}]"
_prefix = ""  # of the termination message

FAILED, RETRY, KILLED = 1, 75, 137  # exit codes; 75: EX_TEMPFAIL of sysexits.h
OUT_OF_MEMORY, DEADLINE = "memory", "deadline"  # values of `cause`
AVOID = "avoid"  # output of the plan and of every attempt: rules that exclude nodes that failed, by the store's records
_OOM_KILLED = "lastRetry.message contains 'OOMKilled'"  # the container runtime's reason; 137 alone is any SIGKILL
LATE = "lastRetry.message contains 'longer than the specified deadline'"  # the kubelet's, of activeDeadlineSeconds
_ASKED_FOR_MORE = f"lastRetry.message contains '{NEEDS.partition(' step')[0]}'"
# Argo's words on a node that `argo stop` ended: one with a pod, and one that waited (for a person, a mutex, a retry).
SHUTDOWN = "(?i)(workflow shutdown|stopped) with strategy"
_TOO_LITTLE = ("ran out of memory {} times, with more each time; raise the stage's memory: resources.STAGE.memory_gb "
               "of the config, or stages.STAGE.memory of the cluster profile")


def say_why(message: str) -> None:
    """Print `message`, and make it the reason that the UI shows beside the failed node."""
    print(message, file=sys.stderr, flush=True)
    _terminate_with(_prefix + message)


def note_memory() -> None:
    """Let the reason begin with how much memory this pod was given, also where it is killed without another word."""
    global _prefix
    step = os.environ.get("ARGOSY_MEMORY_STEP", "0")
    if step not in ("", "0"):
        _prefix = f"{HAS.format(step)} "
        _terminate_with(_prefix)


def _terminate_with(text: str) -> None:
    if TERMINATION_LOG.is_file():  # nothing outside a container
        with contextlib.suppress(OSError):
            TERMINATION_LOG.write_text(text[:_MOST], encoding="utf-8")


@dataclass(frozen=True)
class Attempts:
    """The number of attempts at a batch that ended for a reason that counts."""

    failures: int = 0
    out_of_memory: int = 0

    @classmethod
    def read(cls, plan: Path, batch: str) -> "Attempts":
        """Read the file beside the plan; none are counted where it is absent."""
        record = read_record(_file(plan, batch))
        return cls(int(record.get("failures", 0)), int(record.get("out_of_memory", 0)))

    def write(self, plan: Path, batch: str) -> "Attempts":
        path = _file(plan, batch)
        make_directory(path.parent)
        write_json(path, asdict(self))
        return self

    def counted(self, cause: str | None) -> "Attempts":
        """Count one more; a cause of None or "" counts for nothing, such as a deleted pod."""
        return Attempts(self.failures + (cause == DEADLINE), self.out_of_memory + (cause == OUT_OF_MEMORY))

    @property
    def lack_memory(self) -> bool:
        """Tell whether this pod has less memory than an earlier attempt ran out of; say so for the next one."""
        has = int(os.environ.get("ARGOSY_MEMORY_STEP") or self.out_of_memory)
        if has < self.out_of_memory:
            say_why(f"{NEEDS.format(self.out_of_memory)} an earlier attempt ran out of memory with less")
        return has < self.out_of_memory


def _file(plan: Path, batch: str) -> Path:
    return plan.parent / "attempts" / f"{batch}.json"


def earlier_attempts(plan: Path, batch: str, retry: "Retry") -> "Attempts":
    """Count the attempts before this one, with the last, which had no time to count itself where it was killed. Raises
    StepError: there were enough."""
    first = os.environ.get("ARGOSY_RETRY") == "0"  # or somebody has retried the workflow
    earlier = Attempts() if first else Attempts.read(plan, batch)
    earlier = earlier.counted(os.environ.get("ARGOSY_LAST_CAUSE")).write(plan, batch)
    if earlier.out_of_memory > retry.out_of_memory:
        raise StepError(_TOO_LITTLE.format(earlier.out_of_memory))
    if earlier.failures > retry.failures:
        raise StepError(f"failed {earlier.failures} times, the last time by its deadline (deadline_s of the profile)")
    return earlier


def exit_code(result: "RunResult", earlier: "Attempts", retry: "Retry", plan: Path, batch: str) -> int:
    """Choose the pod's exit code, which says whether another attempt follows; count this attempt, give its reason."""
    if result.why:
        say_why(result.why)
        return FAILED
    if result.signal:
        return 128 + result.signal
    failed = result.having("failed")
    if not failed:
        return 0
    why = "\n".join(f"{each.node.id}: {each.message}" for each in failed)
    # In a pod, the kernel lacked memory and left us alone; of several processes, one was killed again and again.
    if any(each.code in (-signal.SIGKILL, KILLED) for each in failed):
        count = earlier.counted(OUT_OF_MEMORY).write(plan, batch).out_of_memory
        enough = count > retry.out_of_memory
        say_why(f"{why}\n{_TOO_LITTLE.format(count)}" if enough else f"{NEEDS.format(count)} {why}")
        return FAILED if enough else KILLED
    say_why(why)
    if all(each.code == 2 for each in failed):
        return 2
    count = replace(earlier, failures=earlier.failures + 1).write(plan, batch).failures
    return RETRY if count <= retry.failures else FAILED


def cause() -> str:
    """Expression: why the last attempt ended, where it had no time to count that itself; else ''."""
    return f"{_OOM_KILLED} && not ({_ASKED_FOR_MORE}) ? '{OUT_OF_MEMORY}' : {LATE} ? '{DEADLINE}' : ''"


def memory_step(retry: "Retry") -> str:
    """Expression: which of `memory_factors` the next attempt gets."""
    most = retry.out_of_memory
    if not most:
        return "0"
    steps = range(most, 0, -1)
    needed = [f"{_says(NEEDS, n)} ? {n}" for n in steps]
    given = [f"{_says(HAS, n)} ? ({_OOM_KILLED} ? {min(n + 1, most)} : {n})" for n in steps]
    return " : ".join([*needed, *given, f"{_OOM_KILLED} ? 1", "0"])


def memory_factors(retry: "Retry") -> str:
    """Expression: the first attempt's memory times this."""
    return f"[{', '.join(f'{retry.memory_factor**n:g}' for n in range(retry.out_of_memory + 1))}]"


def _says(what: str, number: int) -> str:
    return f"lastRetry.message contains '{what.format(number)}'"


def elsewhere(manifest: str) -> str:
    """Expression: a pod's patch or manifest, with the nodes that are to be avoided now, as the last pod knew them."""
    rules = '"matchFields": '
    return f"sprig.regexReplaceAll('{rules}.*?}}]', {manifest}, '{rules}' + workflow.outputs.parameters.{AVOID})"


def stopped() -> str:
    """Expression: whether somebody stopped the workflow."""
    return f"workflow.failures matches '{SHUTDOWN}'"

