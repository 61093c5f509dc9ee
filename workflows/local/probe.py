"""The speed of this machine's processes while all of them are busy, measured before layouts are compared.

`probe` starts as many processes as will train; each is `python -m workflows.local.probe FOLDER`. They time gloo's
collectives, AdamW's update, the forward and backward of two of the model's blocks, and an optimizer step of each engine
on a model that is next to nothing, which leaves the engine's own work."""

import json
import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from argosy.core.step.process import die_with_parent, make_deterministic
from argosy.model.train.sizing.architecture import read_architecture
from argosy.model.train.sizing.gpus import head_flops, training_flops
from argosy.model.train.sizing.job import Job, Layout
from argosy.planning.choice import OPERATIONS, Speed, engine_name, of_cpu, step_seconds, traffic
from workflows.local.measure import TASK, make_model, random_batch, run_ranks

if TYPE_CHECKING:
    from argosy.model.train.parallelism import Group
    from argosy.model.train.sizing.gpus import Gpu

BLOCKS = 2  # of the model, and of the small one
SMALL = {"hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": BLOCKS, "num_attention_heads": 4,
         "num_key_value_heads": 4, "max_position_embeddings": 64}
SMALL_WORDS, SMALL_LENGTH = 64, 16
COLLECTIVES = ("all-reduce", "all-gather", "reduce-scatter")
_NUMBERS = 1 << 20  # of a large message, gathered
_PARAMETERS = 1 << 22  # of the optimizer that is timed: more than a cache holds
_TOKENS = 4096  # of the longer forward, at most, where a sample is not longer
_PATIENCE = 300.0
Found = dict[str, Any]


def probe(task: Mapping[str, Any], job: Job, folder: Path) -> Speed:
    """Measure the speed of as many processes as `task` says (as `measure` takes it) for a job.

    Raises StepError: a process failed."""
    samples = _samples(job, int(task["config"]["processes"]))
    found = run_ranks(__name__, {**task, "samples": samples}, folder, _PATIENCE)
    slowest = {name: max(each[name] for each in found) for name in found[0] if name != "engines"}
    slowest |= {name: min(each[name] for each in found) for name in ("bandwidth", *COLLECTIVES) if name in found[0]}
    engines = {name: max(each["engines"][name] for each in found) for name in found[0]["engines"]}
    return speed({**slowest, "engines": engines}, job, samples, len(found))


def _samples(job: Job, processes: int) -> tuple[int, int]:
    """Return two numbers of samples that are trained on at once: those of all, and a process's share."""
    many = max(2, min(job.global_batch_size, _TOKENS // job.sequence_length))
    return max(1, many // max(2, processes)), many


def speed(found: Found, job: Job, samples: tuple[int, int], processes: int) -> Speed:
    """Make a speed of the seconds that were `found`: the line through two forwards and backwards, and what an engine's
    step takes beyond plain torch's and its own messages."""
    blocks = min(BLOCKS, job.model.layers)
    model = replace(job.model, layers=blocks, sparse_layers=round(job.model.sparse_layers * blocks / job.model.layers))
    few, many = (training_flops(replace(job, model=model), Layout(), each * job.sequence_length) for each in samples)
    flops = (many - few) / max(found["many"] - found["few"], 1e-9)
    fixed = found["few"] - few / flops
    if fixed < 0 or flops > 10 * many / found["many"]:  # other work on the machine: no line that could be
        flops, fixed = many / found["many"], 0.0
    head = head_flops(model, samples[1] * job.sequence_length) / flops
    varies = max(found["many"] - fixed - head, 1e-9)
    whole = min(1.0, max(0.0, 1 - 2 * (found["many"] - found["half"]) / varies)) if "half" in found else 0.0
    links = {kind: found.get(kind, 1e9) for kind in COLLECTIVES}  # a lone process sends nothing
    plain = Speed(flops, found["bandwidth"], links, found.get("latency", 0.0), fixed / blocks / (3 * OPERATIONS),
                  whole=whole)
    own = found["engines"]
    if own:
        plain = replace(plain, update=_update(own["torch"], plain, processes))
    return replace(plain, engines={name: max(0.0, seconds - own["torch"] - _more(name, plain, processes)) / BLOCKS
                                   for name, seconds in own.items() if name != "torch"})


def _small(processes: int) -> Job:
    shapes = {"model_type": "llama", "vocab_size": SMALL_WORDS, **SMALL}
    return Job(read_architecture(shapes), SMALL_LENGTH, processes, precision="float32")


def _update(seconds: float, plain: Speed, processes: int) -> float:
    """Return what plain torch's step of the small model takes beyond what is expected of it, by block."""
    expected = step_seconds(_small(processes), Layout(processes, engine="torch"), of_cpu(0, plain), 1.0, processes)
    return max(0.0, seconds - expected) / BLOCKS


def _more(name: str, plain: Speed, processes: int) -> float:
    """Return the seconds that an engine's messages take beyond plain torch's, for the small model."""
    gpu, job = of_cpu(0, plain), _small(processes)
    stage = int(name[-1]) if name.startswith("zero") else 3
    layout = Layout(processes, zero=stage, engine="zero" if name.startswith("zero") else "fsdp")
    return _sent(job, layout, gpu) - _sent(job, Layout(processes, engine="torch"), gpu)


def _sent(job: Job, layout: Layout, gpu: "Gpu") -> float:
    return sum(each.seconds(gpu) for each in traffic(job, layout, layout.gpus))


def run_rank(folder: Path, rank: int, world: int) -> Found:
    """Time everything as one of the processes; returns seconds, and bytes a second."""
    from argosy.core.step.contract import Progress, StepContext
    from argosy.core.tracking.tracker import Tracker
    from argosy.model.train.config import TrainConfig
    from argosy.model.train.parallelism import join_group

    task = json.loads((folder / TASK).read_text())
    phase = {**task["config"], "processes": 1}
    config = TrainConfig.model_validate(phase)
    make_deterministic(config.seed, config.threads)
    group = join_group(StepContext(folder, Tracker(None), Progress(None), rank, world, rank))
    few, many = (_block_seconds(make_model(task, BLOCKS), config, each, group) for each in task["samples"])
    found: Found = {"few": few, "many": many, "bandwidth": _bandwidth(group), "engines": {}}
    if halved := _halved(make_model(task, BLOCKS)):
        found["half"] = _block_seconds(halved, config, task["samples"][1], group)
    if world > 1:
        found |= _links(group) | {"engines": dict(_engines(phase, group))}
    return found


def _fastest(run: Callable[[], Any], group: "Group", times: int = 5, warm: int = 1) -> float:
    """Return the seconds of the fastest run, which all processes begin at once."""
    found = []
    for _ in range(warm + times):
        group.barrier()
        start = time.perf_counter()
        run()
        found.append(time.perf_counter() - start)
    return min(found[warm:])


def _block_seconds(model: Any, config: Any, samples: int, group: "Group") -> float:
    import torch

    from argosy.model.train.layers.loss import LossModule

    module = LossModule(model, 1, getattr(torch, config.dtype), config.z_loss, config.sequence_length, config.attention)
    batch = random_batch(config, samples, model.config.vocab_size)
    arrays = [batch.inputs, batch.targets, batch.channels, *([batch.documents] if config.document_mask else [])]
    tensors = [torch.from_numpy(each) for each in arrays]
    return _fastest(lambda: module(*tensors)[0].backward(), group)


def _halved(model: Any) -> Any:
    """Make a model with what one of two processes of tensor parallelism has of each block; None: it does not divide."""
    shapes = model.config
    names = ("num_attention_heads", "num_key_value_heads", "intermediate_size")
    if getattr(shapes, "head_dim", None) is None or any(getattr(shapes, name, 1) % 2 for name in names):
        return None
    for name in names:
        setattr(shapes, name, getattr(shapes, name) // 2)
    return type(model)(shapes)


def _bandwidth(group: "Group") -> float:
    """Return the bytes a second of an update by AdamW, which reads four numbers of a parameter and writes three."""
    import torch

    parameter = torch.nn.Parameter(torch.zeros(_PARAMETERS))
    parameter.grad = torch.ones(_PARAMETERS)
    return 7 * parameter.nbytes / _fastest(torch.optim.AdamW([parameter], fused=True).step, group)


def _links(group: "Group") -> dict[str, float]:
    """Measure bytes a second by kind of collective, as rings count them, and the latency of a short one."""
    import torch
    import torch.distributed as dist

    part, short = torch.ones(_NUMBERS // group.world), torch.ones(8)
    whole = torch.ones(len(part) * group.world)
    latency = _fastest(lambda: dist.all_reduce(short), group)
    works = (lambda: dist.all_reduce(whole), lambda: dist.all_gather_into_tensor(whole, part),
             lambda: dist.reduce_scatter_tensor(part, whole))
    ring = (group.world - 1) / group.world * whole.nbytes
    return {"latency": latency, **{
        kind: ring * (2 if kind == "all-reduce" else 1) / max(_fastest(work, group) - latency, 1e-9)
        for kind, work in zip(COLLECTIVES, works, strict=True)}}


def _engines(phase: Found, group: "Group") -> Iterator[tuple[str, float]]:
    """Yield the seconds of the small model's step by engine: plain torch's, and those that the optimizer can have."""
    from argosy.model.train.config import TrainConfig
    from argosy.model.train.engines import make_engine

    plain = {name: phase[name] for name in ("optimizer", "seed", "threads")}
    plain |= {"engine": "torch", "dtype": "float32", "sequence_length": SMALL_LENGTH, "global_batch_size": group.world,
              "processes": group.world}
    others: list[Found] = [{"engine": "fsdp"}] if phase["optimizer"] in ("adamw", "muon") else []
    others += [{"engine": {"name": "zero", "stage": stage}} for stage in (1, 2, 3) if phase["optimizer"] == "adamw"]
    for values in ({}, *others):
        config = TrainConfig.model_validate({**plain, **values})
        engine = make_engine(make_model({"model": SMALL, "vocab_size": SMALL_WORDS}), 1, config, group)
        batch = random_batch(config, 1, SMALL_WORDS)
        yield engine_name(config.engine.name, config.zero.stage), _fastest(
            lambda: float(engine.train_step(batch, 1e-4)[2]), group, warm=2)  # noqa: B023


if __name__ == "__main__":
    die_with_parent()
    own, everyone = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    where = Path(sys.argv[1])
    (where / f"rank-{own}.json").write_text(json.dumps(run_rank(where, own, everyone)))
    os._exit(0)  # the others have ended too
