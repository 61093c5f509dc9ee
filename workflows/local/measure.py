"""A few optimizer steps of a phase on this machine: tokens a second and peak memory.

`measure` starts the processes; each is `python -m workflows.local.measure FOLDER`, trains a model of random weights on
random tokens, and leaves `rank-N.json` there. Nothing of a store is touched."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from argosy.errors import StepError
from argosy.sizing.choice import Speed
from argosy.step.machine import free_port
from argosy.step.process import DIE_WITH_PARENT, die_with_parent, make_deterministic, memory_mb, thread_environment

TASK = "task.json"
_SPEED_S = 120.0  # seconds, after which something is wrong
COLLECTIVES = ("all-reduce", "all-gather", "reduce-scatter")
_MOVED = 2**25  # bytes


@dataclass(frozen=True)
class Measured:
    """Measurement of one layout."""

    seconds: float
    """Of an optimizer step: the fastest after the first, since other work on the machine only slows one."""
    tokens_a_second: float
    peak: float
    """Bytes of the fullest process: of tensors on a GPU; on a CPU by which it grew, DeepSpeed included."""


def measure(task: Mapping[str, Any], folder: Path, patience: float) -> Measured:
    """Train as many steps as `task` says, in as many processes as its config does.

    Args:
        task: `config` (fields of a phase), `model` (fields of pretrain.model, with `vocab_size`) or `directory` (of a
            model's config.json), `steps`.
        folder: an empty directory for its files.
        patience: seconds after which it has failed.

    Raises StepError: a process failed, with its last line, or they took longer."""
    config = task["config"]
    found = _run(task, folder, patience)
    seconds = max(each["seconds"] for each in found)
    tokens = config["global_batch_size"] * config["sequence_length"]
    return Measured(seconds, tokens / seconds, max(each["peak"] for each in found))


def measure_speed(config: Mapping[str, Any], folder: Path) -> Speed:
    """Measure what one of a phase's `processes` does on this CPU while all do the same; the slowest one counts.

    Raises StepError: they failed."""
    found = _run({"config": dict(config), "steps": 0}, folder, _SPEED_S)
    flops, bandwidth = (min(each[name] for each in found) for name in ("flops", "bandwidth"))
    latency, operation = (max(each[name] for each in found) for name in ("latency", "operation"))
    links = {kind: min(each[kind] for each in found) for kind in COLLECTIVES}
    return Speed(flops, bandwidth, links, latency, operation)


def _run(task: Mapping[str, Any], folder: Path, patience: float) -> list[dict[str, float]]:
    """Run the task's processes; returns what each of them found."""
    config = task["config"]
    world = int(config.get("processes", 1))
    (folder / TASK).write_text(json.dumps(task))
    common = {**os.environ, **thread_environment(int(config.get("threads", 1))), DIE_WITH_PARENT: str(os.getpid()),
              "WORLD_SIZE": str(world), "LOCAL_WORLD_SIZE": str(world), "MASTER_ADDR": "127.0.0.1",
              "MASTER_PORT": str(free_port())}
    _wait([_start(folder, rank, common) for rank in range(world)], folder, time.monotonic() + patience)
    return [json.loads((folder / f"rank-{rank}.json").read_text()) for rank in range(world)]


def _start(folder: Path, rank: int, environment: Mapping[str, str]) -> "subprocess.Popen[bytes]":
    with (folder / f"rank-{rank}.log").open("wb") as log:
        return subprocess.Popen([sys.executable, "-m", "workflows.local.measure", str(folder)], stdout=log,
                                stderr=subprocess.STDOUT,
                                env={**environment, "RANK": str(rank), "LOCAL_RANK": str(rank)})


def _wait(ranks: "list[subprocess.Popen[bytes]]", folder: Path, until: float) -> None:
    """Wait for all; one that fails ends the others. Raises StepError: one failed, or it is too late."""
    try:
        while any(each.poll() is None for each in ranks):
            failed = [number for number, each in enumerate(ranks) if each.poll()]
            if failed or time.monotonic() > until:
                break
            time.sleep(0.05)
        failed = [number for number, each in enumerate(ranks) if each.poll()]
        if failed:
            lines = (folder / f"rank-{failed[0]}.log").read_text(errors="replace").strip().splitlines()
            raise StepError(f"rank {failed[0]} failed: {lines[-1] if lines else 'killed, most likely for memory'}")
        if any(each.poll() is None for each in ranks):
            raise StepError("its steps took longer than was waited for")
    finally:
        for each in ranks:
            each.kill()
            each.wait()


def _speed(dtype: str, group: Any) -> dict[str, float]:
    """Measure, as one of the group's processes, the numbers of Speed."""
    import torch

    size = 768
    a, b = (torch.randn(size, size, dtype=getattr(torch, dtype)) for _ in range(2))
    memory, small = torch.randn(_MOVED // 4), torch.randn(8)
    copy = torch.empty_like(memory)
    product, moved, operation = (_fastest(each, group) for each in (
        lambda: a @ b, lambda: copy.copy_(memory), lambda: [small + 1 for _ in range(100)]))
    return {"flops": 2 * size**3 / product, "bandwidth": 2 * memory.nbytes / moved, "operation": operation / 100,
            **_links(group)}


def _links(group: Any) -> dict[str, float]:
    """Measure bytes a second by kind of collective, as rings count them, and the latency of a short one."""
    import torch
    import torch.distributed as dist

    if group.world == 1:
        return {"latency": 0.0, **dict.fromkeys(COLLECTIVES, 1e9)}
    part = torch.randn(_MOVED // 16 // group.world)
    whole, short = torch.randn(len(part) * group.world), torch.randn(8)
    latency = _fastest(lambda: dist.all_reduce(short), group)
    works = (lambda: dist.all_reduce(whole), lambda: dist.all_gather_into_tensor(whole, part),
             lambda: dist.reduce_scatter_tensor(part, whole))
    ring = (group.world - 1) / group.world * whole.nbytes
    return {"latency": latency, **{
        kind: ring * (2 if kind == "all-reduce" else 1) / max(_fastest(work, group) - latency, 1e-9)
        for kind, work in zip(COLLECTIVES, works, strict=True)}}


def _fastest(work: Callable[[], object], group: Any) -> float:
    """Return the seconds of the fastest of some runs, which all processes begin together."""
    best = float("inf")
    for _ in range(8):
        group.barrier()
        start = time.perf_counter()
        work()
        best = min(best, time.perf_counter() - start)
    return best


def run_rank(folder: Path, rank: int, world: int) -> dict[str, float]:
    """Train the task's steps as one of its processes; returns `seconds` of a step and `peak` bytes, or with no steps
    the numbers of Speed."""
    import torch

    from argosy.step.contract import Progress, StepContext
    from argosy.tracking.tracker import Tracker
    from argosy.training.config import TrainConfig
    from argosy.training.engines import make_engine
    from argosy.training.parallel import join_group

    task = json.loads((folder / TASK).read_text())
    config = TrainConfig.model_validate(task["config"])
    make_deterministic(config.seed, config.threads)
    group = join_group(StepContext(folder, Tracker(None), Progress(None), rank, world, rank))
    if not task["steps"]:
        return _speed("float32" if config.dtype == "float16" else config.dtype, group)
    model = _model(task)
    loaded = memory_mb()  # the libraries are there now; some systems tell the peak alone
    before = loaded.get("resident", loaded["peak"]) * 2**20 - sum(each.nbytes for each in model.parameters())
    engine = make_engine(model, 1, config, group)
    batch = _batch(config, len(engine.positions(0)), model.config.vocab_size)
    times = []
    for _ in range(1 + int(task["steps"])):
        group.barrier()
        start = time.perf_counter()
        float(engine.train_step(batch, config.learning_rate)[2])  # waits for the device
        group.barrier()
        times.append(time.perf_counter() - start)
    on_gpu = group.device.type == "cuda"
    peak = torch.cuda.max_memory_allocated() if on_gpu else max(0.0, memory_mb()["peak"] * 2**20 - before)
    return {"seconds": min(times[1:]), "peak": float(peak)}


def _model(task: Mapping[str, Any]) -> Any:
    if task.get("directory"):
        from transformers import AutoConfig, AutoModelForCausalLM

        return AutoModelForCausalLM.from_config(AutoConfig.from_pretrained(task["directory"]), dtype="float32")
    from argosy.training.config import ModelConfig
    from argosy.training.phase import build_model

    return build_model(ModelConfig.model_validate(task["model"]), int(task["vocab_size"]), {})


def _batch(config: Any, samples: int, vocab_size: int) -> Any:
    """Make random tokens, each sample one document."""
    import numpy as np

    from argosy.tokens.mixture import Batch

    shape = (samples, config.sequence_length)
    tokens = np.random.default_rng(0).integers(0, vocab_size, (samples, config.sequence_length + 1))
    return Batch(tokens[:, :-1].copy(), tokens[:, 1:].copy(), np.zeros(shape, np.int64), np.zeros(shape, np.int64))


if __name__ == "__main__":
    die_with_parent()
    own, everyone = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    where = Path(sys.argv[1])
    (where / f"rank-{own}.json").write_text(json.dumps(run_rank(where, own, everyone)))
    os._exit(0)  # the others have ended too: nothing is left to take down in order
