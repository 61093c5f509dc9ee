"""Observers of a run, and the terminal's view: bars, or timestamped lines elsewhere, and a summary at the end."""

import os
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from argosy.core.step.process import timestamp
from argosy.core.store.files import read_record
from argosy.core.store.step_files import LOG, PROGRESS
from argosy.corpus.text.display import duration
from workflows.plan import Plan, PlannedNode

if TYPE_CHECKING:
    from rich.table import Table


Status = Literal["ran", "skipped", "failed", "blocked", "stopped"]


@dataclass(frozen=True)
class NodeResult:
    """The end of one node.

    Attributes:
        status: `ran`; `skipped` (done before, or by another run meanwhile); `failed`; `blocked` (something that
            it depends on failed); `stopped` (the run was stopped before it was done).
        code: exit code of a failure; negative: the signal that killed it.
        message: one line for people.
        seconds: of this run."""

    node: PlannedNode
    status: Status
    code: int = 0
    message: str = ""
    seconds: float = 0.0


@dataclass
class RunResult:
    """The end of a run; `results` by node id, in order of ending."""

    results: dict[str, NodeResult] = field(default_factory=dict)
    signal: int = 0  # SIGINT or SIGTERM that stopped the run
    why: str = ""  # it was stopped, where nobody sent a signal
    seconds: float = 0.0

    def having(self, status: Status) -> list[NodeResult]:
        return [result for result in self.results.values() if result.status == status]

    @property
    def exit_code(self) -> int:
        """0; 1 if something failed; 2 if that was for wrong input; 128 + signal if it was stopped."""
        if self.signal:
            return 128 + self.signal
        return max((2 if result.code == 2 else 1 for result in self.having("failed")), default=0)


class RunObserver:
    """Base of observers: override the hooks of interest. They run in the runner's main thread: be quick."""

    def on_plan(self, plan: Plan) -> None:
        """Take note that the run begins."""

    def on_start(self, node: PlannedNode) -> None:
        """Take note that a process begins with `node`."""

    def on_finish(self, result: NodeResult) -> None:
        """Take note that a node ended, or will not run."""

    def on_tick(self) -> None:
        """Take note of time (about four times a second)."""

    def on_end(self, result: RunResult) -> None:
        """Take note that the run ended, in whatever way."""


_LOG_LINES = 12


def summary(result: RunResult) -> list[str]:
    """Summarise a run in lines: counts, failures with the end of their logs, and how to go on."""
    counts = ((status, len(result.having(status))) for status in ("ran", "skipped", "failed", "blocked", "stopped"))
    text = ", ".join(f"{count} {status}" for status, count in counts if count) or "nothing to do"
    lines = [f"{text} in {duration(result.seconds)}"]
    for failure in result.having("failed"):
        log = Path(failure.node.dir, LOG)
        lines += ["", f"{failure.node.id} failed: {failure.message}"]
        first = failure.message.partition("\n")[0]  # is said once, not again by the log
        lines += [*(f"  | {line}" for line in tail(log) if not first or first not in line), f"  log: {log}"]
    if result.having("failed"):
        fix = "Correct the config or the input" if result.exit_code == 2 else "Fix the cause"
        lines += ["", f"{fix} and run the same command again; finished steps are not repeated."]
    elif result.having("stopped"):
        lines += ["", result.why or "Stopped. Run the same command again to go on from here."]
    return lines


def tail(path: Path, lines: int = _LOG_LINES) -> list[str]:
    """Return the last lines of a log that may be long, or absent."""
    try:
        with open(path, "rb") as file:
            file.seek(max(0, file.seek(0, os.SEEK_END) - 200 * lines))
            return file.read().decode(errors="replace").splitlines()[-lines:]
    except OSError:
        return []


_PLAIN_EVERY_S = 30.0
_ROWS, _WIDTH = 12, 24


def make_view(plain: bool) -> RunObserver:
    """Make the view: bars where stdout is a terminal, lines elsewhere, with `plain` and with NO_COLOR."""
    if plain or "NO_COLOR" in os.environ or not sys.stdout.isatty():
        return PlainView()
    return LiveView()


class _View(RunObserver):
    """The base of both views: which nodes run, how many ended."""

    def __init__(self) -> None:
        self.running: dict[str, tuple[PlannedNode, float]] = {}
        self.total = self.ended = 0
        self.began = time.monotonic()

    def on_plan(self, plan: Plan) -> None:
        self.total = len(plan.to_run)
        done = sum(node.selected for node in plan.nodes) - self.total
        self.say(f"{self.total} to run, {done} done already, in {plan.store}")

    def on_start(self, node: PlannedNode) -> None:
        self.running[node.id] = (node, time.time())

    def on_finish(self, result: NodeResult) -> None:
        self.running.pop(result.node.id, None)
        if not result.node.to_run:
            return
        self.ended += result.status not in ("blocked", "stopped")
        if result.status == "ran":
            more = f": {result.message}" if result.message not in ("", "done") else ""
            self.say(f"[{self.ended}/{self.total}] {result.node.id} done in {result.seconds:.1f} s{more}")
        else:
            self.say(f"[{self.ended}/{self.total}] {result.node.id} {result.status}: {result.message}")

    def on_end(self, result: RunResult) -> None:
        for line in summary(result):
            print(line, flush=True)

    def say(self, text: str) -> None:
        raise NotImplementedError


class PlainView(_View):
    """A view in timestamped lines: starts, ends, and how far long nodes are."""

    def __init__(self) -> None:
        super().__init__()
        self._reported = time.monotonic()

    def say(self, text: str) -> None:
        print(f"{timestamp()} {text}", flush=True)

    def on_start(self, node: PlannedNode) -> None:
        super().on_start(node)
        self.say(f"{node.id} started")

    def on_tick(self) -> None:
        if time.monotonic() - self._reported < _PLAIN_EVERY_S:
            return
        self._reported = time.monotonic()
        for node, started in self.running.values():
            if text := progress_text(_progress(node, started)):
                self.say(f"{node.id} {text}")


class LiveView(_View):
    """A view in bars: one for each running node and one for the whole run."""

    def __init__(self) -> None:
        from rich.live import Live

        super().__init__()
        self._live = Live(auto_refresh=False, transient=True)

    def say(self, text: str) -> None:
        self._live.console.print(text, highlight=False, markup=False)

    def on_plan(self, plan: Plan) -> None:
        super().on_plan(plan)
        self._live.start()

    def on_tick(self) -> None:
        self._live.update(self._table(), refresh=True)

    def on_end(self, result: RunResult) -> None:
        self._live.stop()
        super().on_end(result)

    def _table(self) -> "Table":
        from rich.progress_bar import ProgressBar
        from rich.table import Table
        from rich.text import Text

        table = Table.grid(padding=(0, 1))
        for node, started in list(self.running.values())[:_ROWS]:
            far = _progress(node, started)
            done = share(far)
            bar = ProgressBar(None if done is None else 1.0, done or 0.0, width=_WIDTH, pulse=done is None)
            table.add_row(Text(node.id), bar, Text(progress_text(far) or duration(time.time() - started)))
        if len(self.running) > _ROWS:
            table.add_row(Text(f"and {len(self.running) - _ROWS} more"))
        every = f"{self.ended} of {self.total} nodes, {duration(time.monotonic() - self.began)}"
        table.add_row(Text("all", style="bold"), ProgressBar(max(self.total, 1), self.ended, width=_WIDTH), Text(every))
        return table


def _progress(node: PlannedNode, started: float) -> dict[str, Any]:
    """Read the node's progress.json; {} if it is absent or of an attempt before this one."""
    record = read_record(Path(node.dir, PROGRESS))
    return record if record.get("time", 0) >= started - 1 else {}


_MOST = 0.99  # of a step that runs: what comes after its main count, such as an export, is part of it


def share(far: Mapping[str, Any]) -> float | None:
    """Return the share done, below 1, of a running step's main count in its progress.json; None before it begins."""
    return min(far["done"] / far["total"], _MOST) if far.get("total") else None


def progress_text(far: Mapping[str, Any]) -> str:
    """Describe how far a running step is, from its progress.json: its main count while that is at work, and the part
    beside it, such as a held-out evaluation, each with share, amount, rate and time left."""
    part, working = far.get("part"), far.get("done", 0) < far.get("total", 0)
    texts = [_counted(far), str(far.get("note", ""))] if working or not part else []
    if part:
        elapsed = "" if part["done"] else duration(max(0.0, time.time() - part["began"]))
        texts += [f"{part['name']}:", _counted(part), elapsed]
    elif not working and far.get("total"):
        texts.append("finishing")
    return "  ".join(filter(None, texts))


def _counted(count: Mapping[str, Any]) -> str:
    """Describe a count: share, amount, and while it is at work rate and time left."""
    done, total, rate = (float(count.get(key) or 0) for key in ("done", "total", "rate"))
    texts = [f"{_count(done)}/{_count(total)} {count.get('unit', '')}".strip()] if total else []
    if done < total:
        texts.insert(0, f"{100 * min(done / total, _MOST):3.0f} %")
        texts += [f"{_count(rate)}/s", f"ETA {duration((total - done) / rate)}"] if rate > 0 else []
    return "  ".join(texts)


def _count(value: float) -> str:
    for limit, unit in ((1e9, "G"), (1e6, "M"), (1e4, "k")):
        if value >= limit:
            return f"{value / (1e3 if unit == 'k' else limit):.3g} {unit}"
    return f"{value:.0f}" if value >= 10 or value == int(value) else f"{value:.2g}"
