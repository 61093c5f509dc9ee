"""What a person sees of a run: bars in a terminal, timestamped lines elsewhere, a summary at the end."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

from argosy.environment import timestamp
from argosy.progress import PROGRESS
from argosy.storage import read_record
from workflows.local.observer import NodeResult, RunObserver, RunResult
from workflows.local.summary import duration, summary
from workflows.plan import Plan, PlannedNode

if TYPE_CHECKING:
    from rich.table import Table

_PLAIN_EVERY_S = 30.0
_ROWS = 12


def make_view(plain: bool) -> RunObserver:
    """Bars where stdout is a terminal, lines elsewhere, with `plain` and with NO_COLOR."""
    if plain or "NO_COLOR" in os.environ or not sys.stdout.isatty():
        return PlainView()
    return LiveView()


class _View(RunObserver):
    """What both views keep: which nodes run, how many ended."""

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
        self.ended += 1
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
    """Timestamped lines: starts, ends, and how far long nodes are."""

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
            if far := _progress(node, started):
                self.say(f"{node.id} {_text(far)}")


class LiveView(_View):
    """A bar for each running node and one for the whole run."""

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

    def _table(self) -> Table:
        from rich.progress_bar import ProgressBar
        from rich.table import Table
        from rich.text import Text

        table = Table.grid(padding=(0, 1))
        for node, started in list(self.running.values())[:_ROWS]:
            far = _progress(node, started)
            text = _text(far) if far else duration(time.time() - started)
            total = float(far.get("total") or 1) if far else None
            bar = ProgressBar(total, float(far.get("done", 0)), width=24, pulse=not far)
            table.add_row(Text(node.id), bar, Text(text))
        if len(self.running) > _ROWS:
            table.add_row(Text(f"and {len(self.running) - _ROWS} more"))
        elapsed = time.monotonic() - self.began
        table.add_row(Text("all", style="bold"), ProgressBar(max(self.total, 1), self.ended, width=24),
                      Text(f"{self.ended} of {self.total} nodes, {duration(elapsed)}"))
        return table


def _progress(node: PlannedNode, started: float) -> dict[str, float | str]:
    """The node's progress.json; {} if it is absent or of an attempt before this one."""
    record = read_record(Path(node.dir, PROGRESS))
    return record if record.get("time", 0) >= started - 1 else {}


def _text(far: dict[str, float | str]) -> str:
    done, total, rate = (float(far.get(key) or 0) for key in ("done", "total", "rate"))
    amount = f"{_count(done)}/{_count(total)} {far.get('unit', '')}".strip()
    parts = [f"{100 * done / total:3.0f} %" if total else "", amount]
    if rate > 0:
        parts += [f"{_count(rate)}/s", f"ETA {duration((total - done) / rate)}"]
    return "  ".join(part for part in [*parts, str(far.get("note", ""))] if part)


def _count(value: float) -> str:
    for limit, unit in ((1e9, "G"), (1e6, "M"), (1e4, "k")):
        if value >= limit:
            return f"{value / (1e3 if unit == 'k' else limit):.3g} {unit}"
    return f"{value:.0f}" if value >= 10 or value == int(value) else f"{value:.2g}"
