"""`argosy status`: show how far the last run is, from the files of its steps, or a workflow on a cluster."""

import argparse
import textwrap
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from argosy.core.config.explain import first_of, grouped
from argosy.core.errors import InputError
from argosy.core.store.files import read_record
from argosy.core.store.goodput import WHO, WORDS, attempts_of, goodput
from argosy.core.store.step_files import LOG, PROGRESS, RUN, WATCH, read_done
from argosy.corpus.data.counts import remedy
from argosy.corpus.text.display import columns, duration
from workflows.argo.client.view import Task, Unit, View, seconds, view
from workflows.argo.client.watch import reason
from workflows.budget import spent_by
from workflows.cli.cluster import MORE, add_cluster, connected, on_argo, with_access
from workflows.cli.command import Command, add_store
from workflows.graph import definition
from workflows.lifecycle import LifecycleConfig, lifecycle
from workflows.local.view import progress_text
from workflows.plan import NEVER, Plan, PlannedNode, blocked_by, plan
from workflows.stored.last_run import last_config

_SHOWN = 3  # reasons, names and files
_MUCH = 1 / 3  # of a channel that one filter drops


def kept_aside(directories: Mapping[str, str]) -> Iterator[str]:
    """Yield lines for finished nodes whose outputs have `rejected` (counts by reason), `damaged` (files that could not
    be read whole, and why), `skipped` (files), `notes`, or `lost` (channel -> filter -> share of the documents that it
    dropped); parts of one stage together.

    `directories`: by the node's id."""
    stages = grouped((name.partition("/")[0], (directory, done["outputs"])) for name, directory in directories.items()
                     if (done := read_done(directory)))
    damaged = {file: why for parts in stages.values() for _, outputs in parts
               for file, why in (outputs.get("damaged") or {}).items()}
    for file, why in list(damaged.items())[:_SHOWN]:
        yield f"warning: {file} was not read whole ({why}). {remedy(why)}"
    if len(damaged) > _SHOWN:
        yield f"warning: {_count(len(damaged) - _SHOWN, 'more file')} not read whole"
    for stage, parts in stages.items():
        yield from _of_stage(stage, parts)


def watched(nodes: Sequence[PlannedNode]) -> Iterator[str]:
    """Yield lines of what the watch over training has said."""
    for node in filter(_trains, nodes):
        decisions = read_record(Path(node.dir, WATCH)).get("decisions", [])
        yield from (f"{node.id}: {each['said']}; {each['advice']}" for each in decisions[:_SHOWN])
        if len(decisions) > _SHOWN:
            yield f"{node.id}: {_count(len(decisions) - _SHOWN, 'more decision')} of the watch in {node.dir}/{WATCH}"


def _trains(node: PlannedNode) -> bool:
    return "train/loss*" in definition(node.step).metrics


def _of_stage(stage: str, parts: list[tuple[str, Mapping[str, Any]]]) -> Iterator[str]:
    rejecting = [(directory, outputs["rejected"]) for directory, outputs in parts
                 if outputs.get("rejected") and Path(directory, "rejects").is_dir()]
    rejected = sum((Counter(counts) for _, counts in rejecting), Counter[str]())
    if rejected:
        reasons = [f"{reason} ({count})" for reason, count in sorted(rejected.items(), key=lambda item: -item[1])]
        places = first_of([f"{directory}/rejects" for directory, _ in rejecting], _SHOWN)
        yield f"{stage}: {_count(rejected.total(), 'line')} kept aside in {places}: {first_of(reasons, _SHOWN)}"
    for _, outputs in parts:
        if skipped := outputs.get("skipped"):
            files = _count(len(skipped), "file")
            yield f"{stage}: {files} left out, empty, linked or of unknown format: {first_of(skipped, _SHOWN)}"
        for note in outputs.get("notes") or ():
            yield f"{stage}: {note}"
        for channel, shares in outputs.get("lost", {}).items():
            ranked = sorted(shares.items(), key=lambda item: -item[1])
            each = ", ".join(f"{one} {share:.1%}" for one, share in ranked)
            text = f"channel {channel} lost {sum(shares.values()):.1%}: {each}"
            worst, share = ranked[0] if ranked else ("", 0.0)
            if share > _MUCH:
                yield (f"{stage}: warning: {text}: look with `argosy data dropped {worst}`, then change its thresholds "
                       f"in clean.filters or let it skip the channel ({{name: {worst}, skip_channels: [{channel}]}})")
            elif shares:
                yield f"{stage}: {text}"


def _count(number: int, name: str) -> str:
    return f"{number} {name}" + ("" if number == 1 else "s")


CHANGED = "changed since that run: argosy plan shows what"
WIDEST = 160
NOTES = {"skipped": "already done, or outside of the range", "blocked": "a node that it needs failed, or was stopped"}
Row = tuple[str, str, str, str, str]
UnitRow = tuple[str, str, str, str]


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", nargs="?", default="", metavar="WORKFLOW",
                        help="workflow on a cluster (default: the newest)")
    add_store(parser)
    add_cluster(parser)
    parser.add_argument("--goodput", action="store_true",
                        help="also how much of each stage's time moved it forward, and its GPU-hours")
    parser.add_argument("--spent", choices=[*WHO, "stage"], metavar="BY",
                        help="GPU-hours and cost in this store by person, workflow, namespace or stage")


def run(args: argparse.Namespace) -> int:
    """Print a line for each stage, and one for each node that runs or failed; return 1 where one failed."""
    if args.spent:
        print(columns(spent_by(args.store, args.spent), right=(1, 2, 3, 4)))
        return 0
    if on_argo(args):
        found = view(connected(args).find(args.name))
        print(describe_workflow(found, with_access(args, found.name)))
        return int(any(unit.state == "failed" for unit in found.units))
    if args.name:
        raise InputError(f"status does not take {args.name} without --on argo")
    planned = plan(lifecycle(last_config(args.store, LifecycleConfig)), args.store)
    print(describe(planned, every=args.goodput))
    return int(any(node.state == "failed" for node in planned.nodes))


def describe(planned: Plan, *, every: bool = False) -> str:
    """Describe state, time and peak memory of each stage; progress of running nodes; the log of failed ones; goodput of
    training that was interrupted, or of `every` stage."""
    failed = {node.id for node in planned.nodes if node.state == "failed"}
    blocked = blocked_by({node.id: node.upstream for node in planned.nodes if node.state == "pending"}, failed)
    rows = [("NODE", "STATE", "TIME", "MEMORY", "")]
    for name in planned.stages:
        rows += _stage(name, [node for node in planned.nodes if node.name == name], blocked)
    total = _states(planned.nodes, blocked)
    lines = [columns(rows, right=(2, 3)), f"{len(planned.nodes)} nodes: {total}; store {planned.store}"]
    lines += _goodputs(planned, every)
    return "\n".join([*lines, *kept_aside({node.id: node.dir for node in planned.nodes}), *watched(planned.nodes)])


def _goodputs(planned: Plan, every: bool) -> Iterator[str]:
    for node in planned.nodes:
        attempts = attempts_of(node.dir, alive=True)
        found = goodput(attempts)
        failed = every and _trains(node) and node.state == "failed" and not found.trains
        if not (found.trains and (every or len(attempts) > 1)) and not (every and found.gpu_hours) and not failed:
            continue
        causes = [f"{WORDS[cause]} {duration(found.lost[cause])}" for cause in WORDS if cause in found.lost]
        yield f"{node.id}: " + "; ".join(filter(None, (
            f"goodput {found.share:.1%} of {duration(found.wall)}" if found.trains else "",
            "no goodput, as it failed before its first training step" if failed else "",
            f"lost: {', '.join(causes)}" if causes and found.trains else "",
            f"{found.gpu_hours:,.3f} GPU-hours" if found.gpu_hours else "",
            f"cost {found.cost:,.2f}" if found.cost is not None else "")))


def _states(nodes: Sequence[PlannedNode], blocked: Mapping[str, str]) -> str:
    states = Counter("blocked" if node.id in blocked else node.state for node in nodes)
    return ", ".join(f"{count} {state}" for state, count in states.items())


def _stage(name: str, nodes: Sequence[PlannedNode], blocked: Mapping[str, str]) -> Iterator[Row]:
    records = {node.id: read_record(f"{node.dir}/{RUN}") for node in nodes}
    if not nodes[0].part:
        yield _single(nodes[0], records[name], blocked.get(name))
        return
    spent = sum(record.get("seconds", 0.0) for record in records.values())
    memory = max((record.get("peak_rss_mb", 0.0) for record in records.values()), default=0.0)
    causes = dict.fromkeys(blocked[node.id] for node in nodes if node.id in blocked)
    note = f"{len(nodes)} parts" + (f"; blocked: needs {', '.join(causes)}, which failed" if causes else "")
    yield name, _states(nodes, blocked), duration(spent) if spent else "", _size(memory), note
    for node in nodes:
        if node.state in ("running", "failed"):
            id_, *row = _single(node, records[node.id], None)
            yield f"  {id_}", row[0], row[1], "", row[3]


def _single(node: PlannedNode, record: dict[str, Any], cause: str | None) -> Row:
    note = {
        "done": "", "running": progress_text(read_record(f"{node.dir}/{PROGRESS}")),
        "failed": f"{node.reason}; log: {node.dir}/{LOG}",
        "pending": node.reason if record else "" if node.reason == NEVER else CHANGED}[node.state]
    spent = record.get("seconds", 0.0)
    if node.state == "running":
        spent = time.time() - record["started"] if "started" in record else 0.0
    time_ = duration(spent) if spent else ""
    if cause:
        return node.id, "blocked", time_, "", f"needs {cause}, which failed"
    return node.id, node.state, time_, _size(record.get("peak_rss_mb", 0.0)), note


def _size(mb: float) -> str:
    return "" if not mb else f"{mb / 1024:.1f} GB" if mb >= 1000 else f"{mb:.0f} MB"


def describe_workflow(found: View, after: str) -> str:
    """Describe state and time of each task, progress of running pods, and why something failed or waits."""
    rows: list[UnitRow] = [("NODE", "STATE", "TIME", "")]
    for task in found.tasks:
        rows += _of_task(task, after)
    states = Counter(unit.state for unit in found.units)
    total = ", ".join(f"{count} {state}" for state, count in states.items()) or "nothing has started"
    began, ended = seconds(found.status.get("startedAt")), seconds(found.status.get("finishedAt"))
    took = f" in {duration((ended or time.time()) - began)}" if began else ""
    phase, why = "stopped" if found.stopped else found.phase.lower(), str(found.status.get("message") or "")
    phase += f" ({why})" if why else ""
    lines = [columns(rows, right=(2,)), f"{found.name} {phase}{took}; pods: {total}"]
    return "\n".join([*lines, found.plan_line] if found.plan_line else lines)


def _of_task(task: Task, after: str) -> Iterator[UnitRow]:
    if len(task.units) == 1:
        yield _of_unit(task.name, task.units[0], after)
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
            yield _of_unit(f"  {unit.label}", unit, after)


def _one_line(text: str) -> str:
    return textwrap.shorten(text.replace("\n", "; "), WIDEST, placeholder=" ...")


def _of_unit(name: str, unit: Unit, after: str) -> UnitRow:
    spent = time.time() - unit.started if unit.state == "running" and unit.started else unit.seconds
    notes = {"running": f"{unit.progress:.0%}" if unit.progress else "", "pending": _one_line(unit.waits),
             "stopped": unit.message}  # fmt: skip
    note = notes.get(unit.state, "")
    if unit.state == "failed":
        note = f"{_one_line(reason(unit))}; log: argosy logs {unit.label} --on argo --workflow {after}"
    if len(unit.attempts) > 1:
        note = f"attempt {len(unit.attempts)}" + (f"; {note}" if note else "")
    return name, unit.state, duration(spent) if spent else "", note.replace("\n", "; ")


COMMAND = Command("status", "show how far the last run is", 40, configure, run, MORE)
