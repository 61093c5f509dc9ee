"""Resources of stages as earlier runs of the same stage, on as many processes and nodes, measured them."""

import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from argosy.core.store.files import read_record
from argosy.core.store.goodput import Attempt, attempts_of
from argosy.core.store.step_files import NODE, RUN
from argosy.core.tracking.spool import read
from argosy.model.train.sizing.gpus import gpu_of
from workflows.graph import Resources
from workflows.plan import Plan, PlannedNode

MARGIN, GROWTH = 1.25, 1.5  # times the measured peak; times what was too little
_WORTH = 0.75  # a request is lowered by a quarter or more, or stays
_STEADY_S = 60.0  # of training, and half of the time or more: what start-up kept busy says little of cores
_MOST = 200  # directories of a stage that are read, the newest


class Learnt(NamedTuple):
    """A stage's requests, what was measured (in GB and cores; 0: nothing), and the requests that would do."""

    stage: str
    asked: Resources
    peak_gb: float
    cores: float
    enough: Resources
    failed_gb: float = 0.0
    """Memory that was too little since the last run that ended well."""
    micro_batch: tuple[int, float, int] | None = None
    """Its size, GB of the GPU at the peak, and the size that would fit; it decides the result, so a person sets it."""


def learn(planned: Plan) -> list[Learnt]:
    """Look at earlier runs of each stage that is to run; those whose requests would do as they are are left out."""
    stages = {node.name: node for node in reversed(planned.to_run)}  # the first of each
    found = [learnt for node in reversed(stages.values()) if (learnt := _of_stage(node, runs_of(node, planned.store)))]
    return [each for each in found if each.enough != each.asked or each.micro_batch]


def applied(planned: Plan, found: Sequence[Learnt]) -> Plan:
    """Return the plan with the requests that would do; they only schedule, and no digest has them."""
    enough = {each.stage: each.enough for each in found}
    nodes = (node.model_copy(update={"resources": enough.get(node.name, node.resources)}) for node in planned.nodes)
    return planned.model_copy(update={"nodes": tuple(nodes)})


def describe_learnt(found: Sequence[Learnt], *, apply: bool) -> str:
    """Describe the requests that would do in a line each; "" where there are none."""
    lines = [line for each in found for line in _lines(each)]
    more = "these requests apply (learn_resources)" if apply else "learn_resources=true applies them"
    return "\n".join([*lines, f"{more}; micro batches are yours to set\n\n"]) if lines else ""


def _lines(each: Learnt) -> list[str]:
    asked, enough, lines = each.asked, each.enough, []
    together = f" for {asked.nodes} nodes together" if asked.nodes > 1 else ""
    if asked.memory_gb != enough.memory_gb:
        why = f"{each.failed_gb:g} GB were not enough" if each.failed_gb else f"measured peak {each.peak_gb:.2g} GB"
        verdict = "would do" if enough.memory_gb < asked.memory_gb else "are needed"
        lines.append(f"{each.stage}: asked {asked.memory_gb:g} GB{together}, {why}: {enough.memory_gb:g} GB {verdict}")
    if asked.cores != enough.cores:
        lines.append(f"{each.stage}: asked {asked.cores} cores{together}, used {each.cores:.2g}: "
                     f"{enough.cores} would do")
    if each.micro_batch:
        size, peak, fits = each.micro_batch
        lines.append(f"{each.stage}: micro_batch_size {size} took {peak:.2g} GB of its GPU: {fits} would fit")
    return lines


def runs_of(node: PlannedNode, store: str) -> list[Path]:
    """List the directories of earlier runs of a node's stage, the oldest first, its own among them."""
    names = [name for name in (os.listdir(store) if os.path.isdir(store) else ()) if name.startswith(f"{node.name}-")]
    there = sorted((path for name in names if (path := Path(store, name, RUN)).is_file()),
                   key=lambda path: path.stat().st_mtime)[-_MOST:]
    records = [(path.parent, read_record(path.parent / NODE)) for path in there]
    return [path for path, record in records if (record.get("node"), record.get("step")) == (node.name, node.step)]


def _of_stage(node: PlannedNode, directories: Sequence[Path]) -> Learnt | None:
    asked, parts = node.resources, dict[str, list[Attempt]]()
    directories = [each for each in directories
                   if (read_record(each / RUN).get("config") or {}).get("processes", 1) == asked.processes]
    for directory in directories:
        alike = (attempt for attempt in attempts_of(directory) if attempt.get("nodes") == asked.nodes)
        parts.setdefault(str(read_record(directory / NODE).get("part")), []).extend(alike)
    each = [_needed(sorted(attempts, key=lambda attempt: float(attempt["ended"]))) for attempts in parts.values()]
    peak, cores, failed = (max((values[n] for values in each), default=0.0) for n in range(3))
    if not peak and not failed:
        return None
    gb, count = max(MARGIN * peak, GROWTH * failed), max(1, math.ceil(MARGIN * cores))
    memory = math.ceil(4 * gb) / 4 if gb < 2 else float(math.ceil(gb))  # up to quarters, or from 2 GB to whole ones
    lower = memory <= _WORTH * asked.memory_gb
    enough = replace(asked, memory_gb=memory if lower or memory > asked.memory_gb else asked.memory_gb,
                     cores=count if cores and count <= _WORTH * asked.cores else asked.cores)
    return Learnt(node.name, asked, peak, cores, enough, failed, _micro_batch(directories))


def _needed(attempts: Sequence[Attempt]) -> tuple[float, float, float]:
    """Return the last good attempt's peak in GB and its cores, and the memory that was too little for one after it."""
    peak = cores = failed = 0.0
    for attempt in attempts:
        if attempt["exit"] == 0:  # each node gets as much as the largest
            nodes, took, runs = attempt["nodes"], attempt["ended"] - attempt["started"], attempt["runs"]
            steady = sum(run["at"] - run["began"] for run in runs) if runs else took
            peak, failed = attempt.get("peak_rss_mb", 0.0) * nodes * 2**20 / 1e9, 0.0
            cores = attempt.get("cores", 0.0) * nodes if steady >= max(_STEADY_S, took / 2) else 0.0
        elif attempt["exit"] == 137:  # of the machine's memory, and not of a GPU's
            failed = max(failed, attempt.get("memory_gb", 0.0))
    return peak, cores, failed


def _micro_batch(directories: Sequence[Path]) -> tuple[int, float, int] | None:
    """Say what micro batch the GPU of the newest finished run has room for, where that is twice its own or more: at
    least what is there by the share of the memory, as the weights do not grow with it."""
    run: Mapping[str, Any] = read_record(directories[-1] / RUN) if directories else {}
    size = (run.get("config") or {}).get("micro_batch_size")
    gpu = gpu_of((run.get("computed_with") or {}).get("device", ""))
    if run.get("exit") != 0 or not isinstance(size, int) or not size or gpu is None:
        return None
    peak = max((value for _, value in read(directories[-1]).get("memory/peak_mb", [])), default=0.0) * 2**20
    fits = size * 2 ** int(math.log2(max(1.0, gpu.usable / peak))) if peak else size
    return (size, peak / 1e9, fits) if fits > size else None
