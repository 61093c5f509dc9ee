"""A few optimizer steps of a phase on this machine: tokens a second and peak memory.

`measure` starts the processes; each is `python -m workflows.local.measure FOLDER`, trains a model of random weights on
random tokens, and leaves `rank-N.json` there. Nothing of a store is touched."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from argosy.core.errors import StepError
from argosy.core.step.machine import free_port
from argosy.core.step.process import DIE_WITH_PARENT, die_with_parent, make_deterministic, memory_mb, thread_environment

TASK = "task.json"
_MOST = 100  # steps


@dataclass(frozen=True)
class Measured:
    """Measurement of one layout."""

    seconds: float
    """Time of an optimizer step: the fastest after the first, since other work on the machine only slows one."""
    tokens_a_second: float
    noise: float
    """Share of it by which the second fastest step took longer."""
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
    found = run_ranks(__name__, task, folder, patience)
    slowest = max(found, key=lambda each: float(each["seconds"]))
    seconds, tokens = slowest["seconds"], config["global_batch_size"] * config["sequence_length"]
    return Measured(seconds, tokens / seconds, slowest["noise"], max(each["peak"] for each in found))


def run_ranks(module: str, task: Mapping[str, Any], folder: Path, patience: float) -> list[dict[str, Any]]:
    """Run `python -m MODULE FOLDER` in as many processes as the task's config says; returns what each has left.

    Raises StepError: as `measure` does."""
    config = task["config"]
    world = int(config.get("processes", 1))
    (folder / TASK).write_text(json.dumps(task))
    common = {**os.environ, **thread_environment(int(config.get("threads", 1))), DIE_WITH_PARENT: str(os.getpid()),
              "WORLD_SIZE": str(world), "LOCAL_WORLD_SIZE": str(world), "MASTER_ADDR": "127.0.0.1",
              "MASTER_PORT": str(free_port())}
    ranks = []
    for rank in range(world):
        with (folder / f"rank-{rank}.log").open("wb") as log:
            own = {**common, "RANK": str(rank), "LOCAL_RANK": str(rank)}
            ranks.append(subprocess.Popen([sys.executable, "-m", module, str(folder)], stdout=log, stderr=log, env=own))
    _wait(ranks, folder, time.monotonic() + patience)
    return [json.loads((folder / f"rank-{rank}.json").read_text()) for rank in range(world)]


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


def run_rank(folder: Path, rank: int, world: int) -> dict[str, float]:
    """Train the task's steps as one of its processes; returns `seconds` and `noise` of a step, and `peak`
    bytes."""
    import torch

    from argosy.core.step.contract import Progress, StepContext
    from argosy.core.tracking.tracker import Tracker
    from argosy.model.train.config import TrainConfig
    from argosy.model.train.engines import make_engine
    from argosy.model.train.parallelism import join_group

    task = json.loads((folder / TASK).read_text())
    config = TrainConfig.model_validate(task["config"])
    make_deterministic(config.seed, config.threads)
    group = join_group(StepContext(folder, Tracker(None), Progress(None), rank, world, rank))
    model = make_model(task)
    loaded = memory_mb()  # the libraries are there now; some systems tell the peak alone
    before = loaded.get("resident", loaded["peak"]) * 2**20 - sum(each.nbytes for each in model.parameters())
    engine = make_engine(model, 1, config, group)
    batch = random_batch(config, len(engine.positions(0)), model.config.vocab_size)
    times: list[float] = []
    steps = 2 + int(task["steps"])
    while len(times) < steps:
        group.barrier()
        start = time.perf_counter()
        float(engine.train_step(batch, config.learning_rate)[2])  # waits for the device
        group.barrier()
        times.append(time.perf_counter() - start)
        if len(times) == 2:  # short steps: as many as a second has, so that the fastest had the machine for itself
            steps = group.agreed(max(steps, min(_MOST, int(1 / times[1]))))
    on_gpu = group.device.type == "cuda"
    peak = torch.cuda.max_memory_allocated() if on_gpu else max(0.0, memory_mb()["peak"] * 2**20 - before)
    fastest, second = sorted(times[1:])[:2]
    return {"seconds": fastest, "noise": second / fastest - 1, "peak": float(peak)}


def make_model(task: Mapping[str, Any], blocks: int = 0) -> Any:
    """Make the task's model with random weights, of at most `blocks` blocks where that is not 0."""
    if task.get("directory"):
        from argosy.model.weights.pretrained import load_config, random_model

        config = load_config(Path(task["directory"]))
        if blocks:
            config.num_hidden_layers = min(blocks, config.num_hidden_layers)
            if getattr(config, "layer_types", None):
                config.layer_types = config.layer_types[:blocks]
        return random_model(config)
    from argosy.model.train.config.model import ModelConfig
    from argosy.model.train.phase import build_model

    model = dict(task["model"])
    if blocks:
        model["num_hidden_layers"] = min(blocks, model["num_hidden_layers"])
    return build_model(ModelConfig.model_validate(model), int(task["vocab_size"]), {})


def random_batch(config: Any, samples: int, vocab_size: int) -> Any:
    """Make random tokens, each sample one document."""
    import numpy as np

    from argosy.corpus.tokens.mixture import Batch

    shape = (samples, config.sequence_length)
    tokens = np.random.default_rng(0).integers(0, vocab_size, (samples, config.sequence_length + 1))
    return Batch(tokens[:, :-1].copy(), tokens[:, 1:].copy(), np.zeros(shape, np.int64), np.zeros(shape, np.int64))


if __name__ == "__main__":
    die_with_parent()
    own, everyone = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    where = Path(sys.argv[1])
    (where / f"rank-{own}.json").write_text(json.dumps(run_rank(where, own, everyone)))
    os._exit(0)  # the others have ended too: nothing is left to take down in order
