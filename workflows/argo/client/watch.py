"""The watch of a workflow to its end: lines for changes, and a summary."""

import time
from collections.abc import Callable, Iterator

from argosy.core.step.process import timestamp
from argosy.corpus.text.display import duration
from workflows.argo.client.api import ApiError, ArgoClient
from workflows.argo.client.view import OVER, Json, Unit, View, seconds, view

POLL_S = 2.0
PROGRESS_EVERY_S = 30.0
LONGEST_PAUSE_S = 60.0
PATIENCE_S = 900.0  # without an answer; an API server is upgraded in less


class Lines:
    """The lines to print after each look at a workflow."""

    def __init__(self) -> None:
        self._seen: dict[str, Unit] = {}
        self._planned = self._began = False
        self._reported, self._ended = 0.0, 0
        self._waiting: dict[str, str] = {}

    def of(self, found: View, now: float) -> list[str]:
        """Return lines for changes since the last call. `now` in seconds, of any clock that does not jump."""
        if not self._began:
            return self._first(found, now)
        lines = [] if self._planned else list(self._plan(found))
        for unit in found.units:
            lines += self._changes(unit, self._seen.get(unit.label), found)
            self._seen[unit.label] = unit
        if now - self._reported >= PROGRESS_EVERY_S:
            self._reported = now
            running = (unit for unit in found.units if unit.state == "running" and unit.progress)
            lines += [f"{unit.label} {100 * unit.progress:3.0f} %" for unit in running]
        return lines

    def _first(self, found: View, now: float) -> list[str]:
        """Sum up a workflow that is already under way."""
        self._began, self._reported = True, now
        before = [unit for unit in found.units if unit.state == "done"]
        self._seen = {unit.label: unit for unit in before}
        self._ended = sum(unit.batch in found.planned for unit in before)
        lines = list(self._plan(found))
        if self._ended:
            lines.append(f"[{self._ended}/{found.total or '?'}] already done")
        return lines + (self.of(found, now) if not found.over else [])

    def _plan(self, found: View) -> Iterator[str]:
        if found.total is not None:
            self._planned = True
            yield f"{found.plan_line}; {found.total} pod{'' if found.total == 1 else 's'}"

    def _changes(self, unit: Unit, before: Unit | None, found: View) -> Iterator[str]:
        tried, tried_before = len(unit.attempts), len(before.attempts) if before else 0
        if unit.started and not (before and before.started):
            yield f"{unit.label} started"
        elif tried > max(tried_before, 1) and unit.state not in OVER:
            last = unit.attempts[-2]
            why = last.get("message") or f"it {last.get('phase', 'ended').lower()}"
            yield f"{unit.label} is retried, attempt {tried}: {why}"
        if unit.waits and unit.waits != self._waiting.get(unit.label):
            self._waiting[unit.label] = unit.waits
            yield f"{unit.label} waits: {unit.waits}"
        if unit.state in OVER and (before is None or before.state not in OVER):
            how = f"done in {unit.seconds:.1f} s" if unit.state == "done" else f"{unit.state}: {reason(unit)}"
            counts = unit.batch in found.planned  # not the plan, the report, the exit handler
            self._ended += counts
            yield (f"[{self._ended}/{found.total or '?'}] " if counts else "") + f"{unit.label} {how}"


def watch(client: ArgoClient, name: str, *, sleep: Callable[[float], None] = time.sleep,
          clock: Callable[[], float] = time.monotonic) -> View:
    """Print timestamped lines until the workflow is over; returns it.

    An API that is away for a while is waited for. Raises ApiError: it is gone for good, or refuses."""
    lines = Lines()
    while True:
        found = view(_patiently(client, name, sleep))
        for line in lines.of(found, clock()):
            _say(line)
        if found.over:
            return found
        sleep(POLL_S)


def await_plan(client: ArgoClient, name: str, most_s: float) -> View:
    """Look at a workflow until its plan is over, for at most `most_s`; return the last look. Raises ApiError."""
    began = time.monotonic()
    while True:
        found = view(_patiently(client, name, time.sleep, most_s - time.monotonic() + began))
        if found.over or (found.plan and found.plan.state in OVER) or time.monotonic() - began >= most_s:
            return found
        time.sleep(POLL_S / 2)


def _say(text: str) -> None:
    print(f"{timestamp()} {text}", flush=True)


def summary(found: View, after: str) -> list[str]:
    """Summarize a finished workflow; `after` is the end of a command line on it."""
    counts = [("ran", sum(unit.state == "done" and unit.batch in found.planned for unit in found.units))]
    counts += [(state, sum(unit.state == state for unit in found.units)) for state in ("failed", "stopped")]
    counts.append(("blocked", sum(task.state == "blocked" for task in found.tasks)))
    text = ", ".join(f"{count} {word}" for word, count in counts if count) or "nothing to do"
    took = max(0.0, seconds(found.status.get("finishedAt")) - seconds(found.status.get("startedAt")))
    lines = [f"{text} in {duration(took)}"]
    failed = [unit for unit in found.units if unit.state == "failed"]
    for unit in failed:
        log = f"argosy logs {unit.label} --on argo --workflow {after}"
        lines += ["", f"{unit.label} failed: {reason(unit)}", f"  log: {log}"]
    if failed and found.phase == "Succeeded":
        lines += ["", "The workflow has succeeded nevertheless; its results are in the store."]
    elif found.stopped:
        lines += ["", f"Stopped. 'argosy retry {after}' continues from here."]
    elif failed and found.exit_code == 2:
        lines += ["", "Correct the config or the input and submit again; finished steps are not repeated."]
    elif failed:
        lines += ["", f"Fix the cause and 'argosy retry {after}'; finished steps are not repeated."]
    elif found.exit_code:
        lines += ["", f"{found.name} {found.phase.lower()}: {found.status.get('message', 'no reason given')}"]
    return lines


def reason(unit: Unit) -> str:
    """Return the pod's message, without the label that stands before it anyway."""
    return unit.message.removeprefix(f"{unit.task}: ") or f"exit code {unit.exit_code}"


def _patiently(client: ArgoClient, name: str, sleep: Callable[[float], None], most_s: float = PATIENCE_S) -> Json:
    pause, waited = POLL_S, 0.0
    while True:
        try:
            found = client.get(name)
        except ApiError as error:
            if not error.passing or waited >= most_s:
                raise
            if not waited:
                _say(f"{error}; the workflow goes on, and this keeps asking")
            sleep(pause)
            waited, pause = waited + pause, min(2 * pause, LONGEST_PAUSE_S)
            continue
        if waited:
            _say("it answers again")
        return found
