"""More memory after each time that there was too little: what the template calculates, and what pods tell it.

Of all attempts the controller shows a template the last one alone: its exit code and its message. So a pod that has
more memory than the first one says so in its termination message, which outlives it; and one that has less than the
attempts before it have shown to be needed (the last one was deleted, say, and left no message) asks for more and ends.
"""

from __future__ import annotations

from workflows.argo.pod.message import HAS, NEEDS
from workflows.argo.profile_settings import Retry

OUT_OF_MEMORY, DEADLINE = "memory", "deadline"  # what `cause` says
_KILLED = "lastRetry.message contains 'OOMKilled'"  # the container runtime's reason; 137 alone is any SIGKILL
LATE = "lastRetry.message contains 'longer than the specified deadline'"  # the kubelet's, of activeDeadlineSeconds
_ASKED = f"lastRetry.message contains '{NEEDS.partition(' step')[0]}'"


def cause() -> str:
    """Expression: why the last attempt ended, where it had no time to count that itself; else ''."""
    return f"{_KILLED} && not ({_ASKED}) ? '{OUT_OF_MEMORY}' : {LATE} ? '{DEADLINE}' : ''"


def step(retry: Retry) -> str:
    """Expression: which of `factors` the next attempt gets."""
    most = retry.out_of_memory
    if not most:
        return "0"
    steps = range(most, 0, -1)
    asked = [f"{_says(NEEDS, n)} ? {n}" for n in steps]
    after = [f"{_says(HAS, n)} ? ({_KILLED} ? {min(n + 1, most)} : {n})" for n in steps]
    return " : ".join([*asked, *after, f"{_KILLED} ? 1", "0"])


def factors(retry: Retry) -> str:
    """Expression: the first attempt's memory times this."""
    return f"[{', '.join(f'{retry.memory_factor**n:g}' for n in range(retry.out_of_memory + 1))}]"


def _says(what: str, number: int) -> str:
    return f"lastRetry.message contains '{what.format(number)}'"
