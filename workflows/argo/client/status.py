"""The table of `argosy status --on argo`, in the words of the laptop's."""

import textwrap
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from argosy.text.display import columns, duration
from workflows.argo.client.unit import Unit, seconds
from workflows.argo.client.view import Task, View
from workflows.argo.client.watch import reason

if TYPE_CHECKING:
    from workflows.argo.client.api import Summary

Row = tuple[str, str, str, str]
WIDEST = 160
NOTES = {"skipped": "already done, or outside of the range",
         "blocked": "a node that it needs failed, or was stopped"}  # fmt: skip


def describe(found: View, after: str) -> str:
    """Describe state and time of each task, progress of running pods, and why something failed or waits."""
    rows: list[Row] = [("NODE", "STATE", "TIME", "")]
    for task in found.tasks:
        rows += _task(task, after)
    states = Counter(unit.state for unit in found.units)
    total = ", ".join(f"{count} {state}" for state, count in states.items()) or "nothing has started"
    began, ended = seconds(found.status.get("startedAt")), seconds(found.status.get("finishedAt"))
    took = f" in {duration((ended or time.time()) - began)}" if began else ""
    lines = [columns(rows, right=(2,)), f"{found.name} {_phase(found)}{took}; pods: {total}"]
    return "\n".join([*lines, found.plan_line] if found.plan_line else lines)


def describe_all(found: "Sequence[Summary]", limit: int) -> str:
    """List the first `limit` workflows (0: all), and how many more there are."""
    rows = [("WORKFLOW", "PIPELINE", "STATE", "AGE")]
    rows += [(each.name, each.pipeline, each.phase.lower(), duration(time.time() - seconds(each.created)))
             for each in found[:limit or None]]  # fmt: skip
    more = f"\nand {len(found) - limit} older; --limit 0 lists them too" if 0 < limit < len(found) else ""
    return columns(rows, right=(3,)) + more


def _phase(found: View) -> str:
    message = str(found.status.get("message") or "")
    return ("stopped" if found.stopped else found.phase.lower()) + (f" ({message})" if message else "")


def _task(task: Task, after: str) -> Iterator[Row]:
    if len(task.units) == 1:
        yield _unit(task.name, task.units[0], after)
        return
    if not task.units:
        yield task.name, task.state, "", NOTES.get(task.state, task.message)
        return
    states = Counter(unit.state for unit in task.units)
    spent = sum(unit.seconds for unit in task.units)
    yield (task.name, ", ".join(f"{count} {state}" for state, count in states.items()),
           duration(spent) if spent else "", f"{len(task.units)} pods")  # fmt: skip
    for unit in task.units:
        if unit.state not in ("done", "pending"):
            yield _unit(f"  {unit.label}", unit, after)


def _one_line(text: str) -> str:
    return textwrap.shorten(text.replace("\n", "; "), WIDEST, placeholder=" ...")


def _unit(name: str, unit: Unit, after: str) -> Row:
    spent = time.time() - unit.started if unit.state == "running" and unit.started else unit.seconds
    notes = {"running": f"{unit.progress:.0%}" if unit.progress else "", "pending": _one_line(unit.waits),
             "stopped": unit.message}  # fmt: skip
    note = notes.get(unit.state, "")
    if unit.state == "failed":
        note = f"{_one_line(reason(unit))}; log: argosy logs {unit.label} --on argo --workflow {after}"
    if len(unit.attempts) > 1:
        note = f"attempt {len(unit.attempts)}" + (f"; {note}" if note else "")
    return name, unit.state, duration(spent) if spent else "", note.replace("\n", "; ")
