"""`argosy size --measure`: the planner's best layouts, tried on this machine for a few steps each."""

import argparse
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from argosy.core.errors import InputError, StepError
from argosy.core.step.machine import usable_cores, usable_gpus, usable_memory_gb
from argosy.core.store.files import json_text, write_atomic
from argosy.corpus.text.display import columns
from workflows.lifecycle import LifecycleConfig

if TYPE_CHECKING:
    from argosy.model.train.sizing.architecture import Architecture
    from argosy.model.train.sizing.gpus import Gpu
    from argosy.model.train.sizing.job import Job
    from argosy.planning.choice import Candidate
    from workflows.local.measure import Measured

LAYOUTS = 4
_PATIENCE = 600.0  # seconds, of one layout
_OTHERS = ("zero", "fsdp", "shard", "offload", "tensor", "sequence", "pipeline", "expert", "recompute", "optimizer",
           "precision", "kernels", "loss", "mfu")
Row = tuple["Candidate", "Measured | str", float]


def add_measure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--measure", type=int, nargs="?", const=3, metavar="STEPS",
                        help=f"train {LAYOUTS} layouts for STEPS steps (default: 3) on this machine's GPUs, else its "
                             "cores, and name the fastest")
    parser.add_argument("--out", type=Path, metavar="FILE", help="with --measure: YAML of the fastest one's fields")


def measure_layouts(args: argparse.Namespace, config: LifecycleConfig, model: "Architecture") -> int:
    """Try the layouts and print the table. Raises InputError: another option says otherwise; StepError: none ran."""
    from argosy.model.train.config import TrainConfig, with_fields
    from argosy.model.train.sizing.gpus import MFU
    from argosy.model.train.sizing.job import read_job
    from argosy.planning.choice import candidates

    _check(args)
    on_gpu = bool(usable_gpus())
    phase = getattr(config, args.stage).settled(gpu=on_gpu).model_dump(include=set(TrainConfig.model_fields))
    count = args.gpus or len(usable_gpus()) or usable_cores()
    if on_gpu and count > len(usable_gpus()):
        raise InputError(f"--gpus is {count}, and --measure sees {len(usable_gpus())} GPUs here: give as many or fewer")
    phase = {**phase, "processes": 1} | ({} if on_gpu else {"threads": max(1, usable_cores() // count)})
    directory = args.model_dir or (Path(config.start.model) if config.start else None)
    new = {"model": config.pretrain.model.model_dump(), "vocab_size": config.tokenizer.vocab_size}
    task = {"steps": args.measure, **({"directory": str(directory)} if directory else new)}
    job = read_job(phase, model, on_cpu=not on_gpu)
    device = _gpu(args) if on_gpu else _cpu({**task, "config": {**phase, "processes": count}}, job)

    def allowed(values: Mapping[str, Any]) -> bool:  # nothing is moved to a CPU's memory on a CPU
        return with_fields(phase, values) is not None and (on_gpu or "offload" not in values.get("engine", ""))

    found = candidates(job, device, count, MFU if on_gpu else 1.0, allowed, LAYOUTS)
    if not found:
        raise InputError(f"no layout of {count} processes fits and divides {args.stage}'s batch: lower its "
                         "global_batch_size, sequence_length or model, or give another --gpus")
    rows = [_try(each, {**task, "config": {**phase, **each.values}}, model, on_gpu=on_gpu) for each in found]
    return _report(args, rows, phase)


def _check(args: argparse.Namespace) -> None:
    given = [name for name in _OTHERS if getattr(args, name) not in (None, False)]
    if args.measure < 1:
        raise InputError(f"--measure is {args.measure}, allowed: a whole number of steps from 1 on")
    if given:
        raise InputError(f"--measure tries the planner's layouts of the config as it is: leave out --{given[0]}")
    if args.nodes > 1:
        raise InputError(f"--nodes is {args.nodes}, and --measure tries this machine alone: leave it out")


def _cpu(task: dict[str, Any], job: "Job") -> "Gpu":
    """Measure a process's share of this CPU, with as many processes as the task has."""
    from argosy.planning.choice import of_cpu
    from workflows.local.probe import probe

    print("measuring this machine", file=sys.stderr)
    with tempfile.TemporaryDirectory() as folder:
        return of_cpu(usable_memory_gb() * 1e9 / task["config"]["processes"], probe(task, job, Path(folder)))


def _gpu(args: argparse.Namespace) -> "Gpu":
    from argosy.model.train.sizing.gpus import GPUS, find_gpu

    if args.gpu:
        return find_gpu(args.gpu)
    import torch

    name = torch.cuda.get_device_name(0).lower()
    known = sorted((each for each in GPUS if each in name.replace(" ", "")), key=len)
    if not known:
        raise InputError(f"the GPU here is a {name}, which the planner does not know: name the nearest with --gpu")
    return GPUS[known[-1]]


def _try(each: "Candidate", task: dict[str, Any], model: "Architecture", *, on_gpu: bool) -> Row:
    from argosy.model.train.sizing.job import read_job, read_layout
    from argosy.model.train.sizing.memory import memory
    from workflows.local.measure import measure

    config = task["config"]
    layout = read_layout(config, config["processes"], on_cpu=not on_gpu)
    predicted = memory(read_job(config, model, on_cpu=not on_gpu), layout, context=0).total
    print(f"trying {each.name}", file=sys.stderr)
    with tempfile.TemporaryDirectory() as folder:
        try:
            return each, measure(task, Path(folder), _PATIENCE), predicted
        except StepError as error:
            return each, str(error), predicted


def _report(args: argparse.Namespace, rows: list[Row], phase: Mapping[str, Any]) -> int:
    from argosy.model.train.sizing.layouts import flow

    tokens = phase["global_batch_size"] * phase["sequence_length"]
    ran = [(each, found) for each, found, _ in rows if not isinstance(found, str)]
    if not ran:
        raise StepError(f"no layout ran; the first: {rows[0][1]}")
    order = sorted(ran, key=lambda row: row[1].seconds)
    best = order[0][0]
    text = f"{args.stage}:\n" + "".join(f"  {name}: {flow(value)}\n" for name, value in best.values.items())
    if args.out:
        write_atomic(args.out, text)
    if args.json:
        data = [{"name": each.name, "values": each.values, "predicted": {"tokens_a_second": tokens / each.seconds,
                                                                        "peak": predicted},
                 "measured": {"error": found} if isinstance(found, str) else asdict(found)}
                for each, found, predicted in rows]
        print(json_text({"layouts": data, "best": best.values}, indent=1, ensure_ascii=True))
        return 0
    print(_table(rows, tokens))
    print(f"\n{_verdict(ran)} The fastest is {best.name}:\n\n{text}", end="")
    return 0


def _verdict(ran: list[tuple["Candidate", "Measured"]]) -> str:
    """Compare the two orders, where neither the expected nor the measured times of two layouts are alike."""
    from argosy.planning.choice import ALIKE

    alike, wrong = [], []
    for place, (early, first) in enumerate(ran):
        for late, second in ran[place + 1:]:
            gap, noise = second.seconds / first.seconds - 1, max(ALIKE, first.noise, second.noise)
            if abs(gap) <= noise:
                alike.append(f"{early.name} and {late.name}")
            elif gap < 0 and late.seconds > (1 + ALIKE) * early.seconds:
                wrong.append(f"{late.name} was faster than {early.name}")
    said = f"The measured order is not that of the planner: {'; '.join(wrong)}." if wrong else (
        "The measured order is that of the planner.")
    return said + (f" Alike within the noise, so that no order is claimed: {'; '.join(alike)}." if alike else "")


def _table(rows: list[Row], tokens: int) -> str:
    lines = [("LAYOUT", "MICRO-BATCH", "TOKENS/S PREDICTED", "MEASURED", "GB PREDICTED", "MEASURED", "")]
    for each, found, predicted in rows:
        seen = ("", "", found) if isinstance(found, str) else (
            f"{found.tokens_a_second:,.0f}", f"{found.peak / 1e9:.2f}", "")
        lines.append((each.name, str(each.values["micro_batch_size"]), f"{tokens / each.seconds:,.0f}", seen[0],
                      f"{predicted / 1e9:.2f}", seen[1], seen[2]))
    return columns(lines, right=(1, 2, 3, 4, 5))
