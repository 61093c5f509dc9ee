"""Where `watch` writes: timestamped lines; in a terminal also a bar for each running pod, as on the laptop."""

from __future__ import annotations

import os
import sys
import time
from typing import TYPE_CHECKING

from argosy.environment import timestamp
from workflows.argo.client_unit import OVER
from workflows.argo.client_workflow import View
from workflows.local.summary import duration

if TYPE_CHECKING:
    from rich.table import Table

_ROWS, _WIDTH = 12, 24


def make_screen() -> Screen:
    """With bars where stdout is a terminal; lines alone elsewhere, and with NO_COLOR."""
    return Screen() if "NO_COLOR" in os.environ or not sys.stdout.isatty() else LiveScreen()


class Screen:
    """Lines alone. A context; `show` is given each look at the workflow."""

    def __enter__(self) -> Screen:
        return self

    def __exit__(self, *error: object) -> None: ...

    def say(self, text: str) -> None:
        """A line, with the time."""
        print(f"{timestamp()} {text}", flush=True)

    def show(self, found: View) -> None:
        """Nothing more."""


class LiveScreen(Screen):
    """Lines above, bars below."""

    def __init__(self) -> None:
        from rich.live import Live

        self._live = Live(auto_refresh=False, transient=True)

    def __enter__(self) -> Screen:
        self._live.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._live.stop()

    def say(self, text: str) -> None:
        """Above the bars."""
        self._live.console.print(f"{timestamp()} {text}", highlight=False, markup=False)

    def show(self, found: View) -> None:
        """How far the running pods are, and all of them."""
        self._live.update(bars(found, time.time()), refresh=True)


def bars(found: View, now: float) -> Table:
    """A row for each running pod, with its progress as Argo knows it, and one for what the plan asked for.

    Args:
        now: seconds since the epoch.
    """
    from rich.progress_bar import ProgressBar
    from rich.table import Table
    from rich.text import Text

    table = Table.grid(padding=(0, 1))
    running = [unit for unit in found.units if unit.state == "running"]
    for unit in running[:_ROWS]:
        far, took = unit.progress, duration(max(0.0, now - unit.started))
        bar = ProgressBar(1.0 if far else None, far, width=_WIDTH, pulse=not far)
        table.add_row(Text(unit.label), bar, Text(f"{100 * far:3.0f} %  {took}" if far else took))
    if len(running) > _ROWS:
        table.add_row(Text(f"and {len(running) - _ROWS} more"))
    if found.total:
        over = sum(unit.state in OVER and unit.batch in found.asked for unit in found.units)
        table.add_row(Text("all", style="bold"), ProgressBar(found.total, over, width=_WIDTH),
                      Text(f"{over} of {found.total} pods"))  # fmt: skip
    return table
