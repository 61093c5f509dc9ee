"""The runner of a plan: starts nodes that are ready, follows their processes, stops cleanly; and of one step alone."""

import asyncio
import signal
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from itertools import count
from pathlib import Path
from typing import Any

from argosy.core.errors import InputError, StepError
from argosy.core.step.command import parse_config
from argosy.core.step.process import grace, output_to
from argosy.core.step.runner import Item, run_item
from argosy.core.store.files import explain, make_directory
from argosy.core.store.goodput import note_end
from argosy.core.store.provenance import provenance_of
from argosy.core.store.step_files import LOG, RETRY_FAILED, parts_to_retry, read_done
from workflows.graph import definition
from workflows.local.process import Event, StepProcess
from workflows.local.scheduler import Budget, Scheduler
from workflows.local.shipping import Sender
from workflows.local.view import NodeResult, RunObserver, RunResult, Status, make_view
from workflows.plan import Plan, PlannedNode
from workflows.stored.events import CHECKPOINTS, note_event

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_TICK_S = 0.25
_TICKS = 8  # between two looks at what is spent


def run_plan(plan: Plan, *, budget: Budget | None = None, observers: Sequence[RunObserver] = (),
             plain: bool = False, grace_s: float | None = None, spent: Callable[[], str] = str) -> RunResult:
    """Run the nodes of `plan` that are to run. It belongs into the main thread, which gets signals and has children.

    Args:
        observers: called at each event, beside the view in the terminal.
        plain: timestamped lines even where stdout is a terminal.
        grace_s: seconds between SIGTERM and SIGKILL when the run is stopped; ARGOSY_GRACE_SECONDS, 10, by default.
        spent: says why the run is over, such as a budget that is spent; "": go on.

    Raises InputError, StepError: the store cannot be written; a node asks for GPUs that are not there."""
    budget = budget or Budget()
    budget.check(plan.to_run)
    make_directory(Path(plan.store))
    return asyncio.run(_Run(plan, budget, [make_view(plain), *observers], grace_s or grace(), spent).run())


class _Run:
    def __init__(self, plan: Plan, budget: Budget, observers: list[RunObserver], grace_s: float,
                 spent: Callable[[], str]) -> None:
        self._plan, self._observers, self._grace_s, self._spent = plan, observers, grace_s, spent
        self._scheduler = Scheduler(plan, budget)
        self._processes: set[StepProcess] = set()
        self._current: dict[StepProcess, PlannedNode] = {}
        self._by_dir = {node.dir: node for node in plan.to_run}
        self._started: dict[str, float] = {}
        self._result = RunResult()
        self._idle = asyncio.Event()
        self._error: Exception | None = None

    async def run(self) -> RunResult:
        began = time.monotonic()
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(self._broke)
        for number in _SIGNALS:
            loop.add_signal_handler(number, self._stop, number)
        ticker = asyncio.create_task(self._tick())
        try:
            self._tell("on_plan", self._plan)
            for node in self._plan.nodes:
                if node.selected and not node.to_run:
                    self._finish(node, "skipped", message="already done")
            self._fill()
            await self._idle.wait()
        finally:
            ticker.cancel()
            for process in self._processes:  # only after an error of our own
                process.kill()
            for number in _SIGNALS:
                loop.remove_signal_handler(number)
            self._result.seconds = time.monotonic() - began
            self._tell("on_end", self._result)
        if self._error is not None:
            raise self._error
        return self._result

    def _tell(self, hook: str, *arguments: object) -> None:
        """Call a hook of every observer; one that fails is dropped, since looking on must not stop a run."""
        for observer in list(self._observers):
            try:
                getattr(observer, hook)(*arguments)
            except Exception as error:
                self._observers.remove(observer)
                name = type(observer).__name__
                warnings.warn(f"{name}.{hook} failed and is not called any more: {error!r}", stacklevel=2)

    def _broke(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        """End the run after an error of our own in a callback, rather than wait for ever."""
        error = context.get("exception")
        self._error = error if isinstance(error, Exception) else RuntimeError(context["message"])
        self._idle.set()

    async def _tick(self) -> None:
        for number in count():
            self._tell("on_tick")
            if number % _TICKS == 0 and not self._result.signal and (why := self._spent()):
                self._result.why = why
                self._stop(signal.SIGTERM)
            if number % _TICKS == 0 and self._scheduler.release():
                self._fill()
            await asyncio.sleep(_TICK_S)

    def _fill(self) -> None:
        """Start what fits; when nothing runs any more, the run is over."""
        while not self._result.signal and (started := self._scheduler.start()):
            nodes, share = started
            try:
                self._processes.add(StepProcess(nodes, share, self._on_event, self._on_exit))
            except OSError as error:
                self._scheduler.ended(share)
                known = explain(error, Path(nodes[0].dir))
                for node in nodes:
                    self._failed(node, known.exit_code if known else 1, str(known or error))
        if not self._processes:
            for node in self._scheduler.unfinished:
                self._finish(node, "stopped", message="not started")
            self._idle.set()

    def _on_event(self, process: StepProcess, event: Event) -> None:
        node = self._by_dir[event["out"]]
        if event["event"] == "start":
            self._current[process] = node
            self._started[node.id] = time.monotonic()
            self._tell("on_start", node)
            return
        self._current.pop(process, None)
        if event["code"] is None:
            return  # another run holds it; the process comes back to it
        if event["code"]:
            self._failed(node, event["code"], event["message"])
        else:
            self._succeeded(node, "ran" if event["ran"] else "skipped", event["message"])
        if self._silent(process):  # else it exits in a moment and frees its cores: parts are shared out better then
            self._fill()

    def _silent(self, process: StepProcess) -> list[PlannedNode]:
        return [node for node in process.nodes if node.id not in self._result.results]

    def _on_exit(self, process: StepProcess, code: int) -> None:
        self._processes.discard(process)
        self._scheduler.ended(process.share)
        current = self._current.pop(process, None)
        silent = self._silent(process)
        if self._result.signal:
            for node in silent:
                self._stopped(node)
        elif current is not None:  # it died over one item; the others of its batch have done no harm
            self._ended_silently(current, code)
            self._scheduler.requeue(node for node in silent if node is not current)
        else:
            for node in silent:
                self._ended_silently(node, code)
        self._fill()

    def _ended_silently(self, node: PlannedNode, code: int) -> None:
        """Take note of a process that ended without a word about `node`: it could not begin, or called exit."""
        if (done := read_done(node.dir)) is not None:
            in_vain = f"{RETRY_FAILED}: {_how(code)}"
            self._succeeded(node, "ran", in_vain if parts_to_retry(done) else "done")
        else:
            note_end(node.dir, time.time(), 128 - code if code < 0 else code)
            self._failed(node, code if code < 0 or code == 2 else 1, _how(code))

    def _stopped(self, node: PlannedNode) -> None:
        if (done := read_done(node.dir)) is not None and not parts_to_retry(done):
            self._succeeded(node, "ran", "done")
        else:
            note_end(node.dir, time.time(), 128 + self._result.signal)
            self._scheduler.failed(node)
            self._finish(node, "stopped", message="stopped; continues when run again")

    def _succeeded(self, node: PlannedNode, status: Status, message: str) -> None:
        if definition(node.step).makes_model and status == "ran":
            note_event(Path(self._plan.store), CHECKPOINTS, Path(node.dir).name, {"stage": node.name, "dir": node.dir})
        self._scheduler.succeeded(node)
        self._finish(node, status, message=message)

    def _failed(self, node: PlannedNode, code: int, message: str) -> None:
        blocked = self._scheduler.failed(node)
        self._finish(node, "failed", code, message)
        for other in blocked:
            self._finish(other, "blocked", message=f"needs {node.id}, which failed")

    def _finish(self, node: PlannedNode, status: Status, code: int = 0, message: str = "") -> None:
        now = time.monotonic()
        result = NodeResult(node, status, code, message, now - self._started.get(node.id, now))
        self._result.results[node.id] = result
        self._tell("on_finish", result)

    def _stop(self, number: int) -> None:
        """Ask the steps to stop, and kill them after a while; at a second signal, kill them at once."""
        if self._result.signal:
            self._kill()
            return
        self._result.signal = number
        for process in self._processes:
            process.terminate()
        asyncio.get_running_loop().call_later(self._grace_s, self._kill)
        if not self._processes:
            self._fill()

    def _kill(self) -> None:
        for process in self._processes:
            process.kill()


def _how(code: int) -> str:
    if code >= 0:
        return f"ended with exit code {code} before it was done"
    name = signal.Signals(-code).name
    return f"killed by {name}" + (" (out of memory?)" if -code == signal.SIGKILL else "")


def run_single(step: str, config: dict[str, Any], store: Path, header: Mapping[str, str], *, again: bool = False
               ) -> Path:
    """Run `step` in `<store>/<step>-<digest>` unless it is done; return that directory.

    `header`: of its spool: the model `line`, which is MLflow's experiment, and the `title` of its run there.
    `again`: retry every failed part of a finished step; without, only parts that may pass by themselves and were not
    tried often enough, as in a run.
    Raises InputError: the config or what it names is wrong; StepError: the step failed."""
    defined = definition(step)
    item_config = parse_config(defined, config)
    out = store.absolute() / f"{step}-{provenance_of(defined.name, defined.version, item_config, {})['digest']}"
    done = read_done(out)
    failed = list(done["outputs"].get("failed", ())) if done and again else parts_to_retry(done)
    if failed:
        print(f"retrying {', '.join(failed)}, which failed last time", flush=True)
    sender = Sender(out.parent, [out])
    sender.start()
    try:
        make_directory(out)
        with output_to(out / LOG):
            outcome = run_item(defined, Item(item_config, out, header=header), repeat=again and bool(failed))
    finally:
        sender.close()
    if outcome.code:
        kind = InputError if outcome.code == InputError.exit_code else StepError
        raise kind(f"{outcome.message} (log: {out / LOG})" if outcome.ran else outcome.message)
    if failed and outcome.message != "done":
        print(f"{outcome.message} (log: {out / LOG})", flush=True)
    return out
