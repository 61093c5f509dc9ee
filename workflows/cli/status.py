"""`argosy status`: how far the last run is, from what its steps wrote."""

from __future__ import annotations

import argparse
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from argosy.step_files import LOG, RUN
from argosy.storage import read_record
from workflows.cli.command import Command
from workflows.cli.options import add_store
from workflows.cli.table import columns, duration
from workflows.last_run import last_run
from workflows.lifecycle import LifecycleConfig, lifecycle
from workflows.plan import Plan, PlannedNode, plan


def configure(parser: argparse.ArgumentParser) -> None:
    """Arguments of the command."""
    add_store(parser)


def run(args: argparse.Namespace) -> int:
    """Print a line for each stage, and one for each node that runs or failed. 1 where one failed."""
    config = LifecycleConfig.model_validate(last_run(args.store).config)
    planned = plan(lifecycle(config), args.store)
    print(describe(planned))
    return int(any(node.state == "failed" for node in planned.nodes))


def describe(planned: Plan) -> str:
    """State, time and peak memory of each stage; progress of what runs; where the log of what failed is."""
    rows = [("NODE", "STATE", "TIME", "MEMORY", "")]
    for name in planned.stages:
        rows += _stage(name, [node for node in planned.nodes if node.name == name])
    states = Counter(node.state for node in planned.nodes)
    total = ", ".join(f"{count} {state}" for state, count in states.items())
    return f"{columns(rows, right=(2, 3))}\n{len(planned.nodes)} nodes: {total}; store {planned.store}"


def _stage(name: str, nodes: Sequence[PlannedNode]) -> Iterator[tuple[str, str, str, str, str]]:
    records = {node.id: read_record(f"{node.dir}/{RUN}") for node in nodes}
    seconds = sum(record.get("seconds", 0.0) for record in records.values())
    memory = max((record.get("peak_rss_mb", 0.0) for record in records.values()), default=0.0)
    states = Counter(node.state for node in nodes)
    shown = next(iter(states)) if len(states) == 1 else ", ".join(f"{count} {state}" for state, count in states.items())
    parts = f"{len(nodes)} parts" if nodes[0].part else ""
    yield name, shown, duration(seconds) if seconds else "", f"{memory / 1024:.1f} GB" if memory else "", parts
    for node in nodes:
        if node.state == "running":
            yield f"  {node.id}", "running", _elapsed(records[node.id]), "", progress(node.dir)
        elif node.state == "failed":
            yield f"  {node.id}", "failed", "", "", f"{node.reason}; log: {node.dir}/{LOG}"


def _elapsed(record: dict[str, Any]) -> str:
    started = record.get("started")
    return duration(time.time() - started) if started else ""


def progress(directory: Path | str) -> str:
    """How far a running step is: share, rate and time left; "" where it has not said."""
    record = read_record(f"{directory}/progress.json")
    if not record.get("total"):
        return ""
    done, total, rate = record["done"], record["total"], record.get("rate", 0.0)
    left = f", {duration((total - done) / rate)} left" if rate else ""
    speed = f", {rate:,.0f} {record['unit']}/s" if rate else ""
    return f"{done / total:.0%}{speed}{left}  {record.get('note', '')}".rstrip()


COMMAND = Command("status", "show how far the last run is", 40, configure, run)
