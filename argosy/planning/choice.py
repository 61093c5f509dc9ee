"""The layouts that are worth a try on a machine, by the time that the planner expects of a step."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from argosy.model.train.sizing.compute import bubble, head_flops, training_flops
from argosy.model.train.sizing.gpus import Gpu
from argosy.model.train.sizing.job import Job, Layout
from argosy.model.train.sizing.layouts import Proposal, fields, fit, ladder
from argosy.model.train.sizing.memory import parameters_on_gpu, states
from argosy.planning.traffic import traffic

OPERATIONS = 40  # of a block's forward in transformers' Llama, run one at a time
ALIKE = 0.05  # shorter by less than this share is no reason to try a layout that is less simple
Values = dict[str, Any]


@dataclass(frozen=True)
class Candidate:
    """A layout that fits, with the fields of a phase that set it."""

    proposal: Proposal
    values: Values
    seconds: float
    """Expected seconds per optimizer step."""

    @property
    def name(self) -> str:
        """Return it in words."""
        return self.proposal.name


@dataclass(frozen=True)
class Speed:
    """Speed of one CPU process while all others are busy."""

    flops: float
    """Operations a second that the model's own forward and backward reach: the MFU is in it."""
    bandwidth: float
    """Bytes a second that go through the memory."""
    links: Mapping[str, float]
    """Bytes a second that it sends to the others, by kind of collective."""
    latency: float
    """Seconds of a message, however short."""
    operation: float
    """Seconds of an operation, however small."""
    update: float = 0.0
    whole: float = 0.0
    engines: Mapping[str, float] = field(default_factory=dict)
    """These three as those of a Gpu."""


def step_seconds(job: Job, layout: Layout, gpu: Gpu, mfu: float, per_node: int) -> float:
    """Return the time of an optimizer step: arithmetic at `mfu` of the peak, what each operation costs however small,
    traffic of which nothing is hidden, and the optimizer's way through the memory."""
    tokens = job.global_batch_size * job.sequence_length
    work = _flops(job, layout, gpu, tokens) / (gpu.flops * mfu)
    anew = 4 if layout.recompute == "full" else 3  # forwards' worth of operations, a backward being two
    blocks = -(-job.model.layers // layout.pipeline)
    own = gpu.engines.get(engine_name(layout.engine, layout.zero), 0.0)
    small = layout.accumulation(job) * blocks * (anew * OPERATIONS * gpu.operation + own)
    sent = sum(each.seconds(gpu) for each in traffic(job, layout, per_node))
    update = _update_bytes(job, layout) / gpu.bandwidth + blocks * gpu.update
    return (work + small) * (1 + bubble(job, layout)) + sent + update


def engine_name(engine: str, zero: int) -> str:
    """Return the key of `Gpu.engines`: `fsdp`, `zero-1`, ...; what has no key adds nothing to plain torch."""
    return f"zero-{zero}" if engine == "zero" and zero else engine


def _flops(job: Job, layout: Layout, gpu: Gpu, tokens: int) -> float:
    """Return the operations of the GPU that has the most: its part of the blocks, and the output layer, which tensors
    leave whole and which the last stage of a pipeline has alone."""
    head = head_flops(job.model, tokens)
    blocks = (training_flops(job, layout, tokens) - head) / layout.pipeline
    divided = blocks * (gpu.whole + (1 - gpu.whole) / layout.tensor)
    return (divided + head) / (layout.data * layout.context)


def _update_bytes(job: Job, layout: Layout) -> float:
    """Count what the optimizer reads and writes: gradients once, weights and its state there and back."""
    shards = layout.shards if layout.zero else 1
    weights = parameters_on_gpu(job, layout) * (2 * job.bytes.weight + job.bytes.gradient) / shards
    return weights + 2 * states(job, layout)["optimizer"]


def candidates(job: Job, gpu: Gpu, gpus: int, mfu: float, allowed: Callable[[Values], bool],
               most: int = 4) -> list[Candidate]:
    """Return the `most` layouts of all `gpus` of one node that are expected to be the fastest, the fastest first.

    Of layouts whose steps take as long, within ALIKE, the simplest alone is among them. `allowed`: whether a phase can
    have these fields."""
    found: list[Candidate] = []
    for layout in ladder(job, gpus, gpus):
        tried = fit(job, layout, gpu.usable)
        named = fields(layout)
        if not tried.fits or named is None:
            continue
        values = {**named, "micro_batch_size": tried.job.micro_batch_size}
        seconds = step_seconds(tried.job, layout, gpu, mfu, gpus)
        like = any(abs(each.seconds - seconds) < ALIKE * seconds for each in found)
        if not like and allowed(values):
            found.append(Candidate(tried, values, seconds))
    return sorted(found, key=lambda each: each.seconds)[:most]


def of_cpu(memory: float, speed: Speed) -> Gpu:
    """Return a process's share of a CPU as a type of GPU. `memory`: its bytes."""
    best = max(speed.links.values())
    reached = {kind: each / best for kind, each in speed.links.items()}
    return Gpu("cpu", memory, speed.flops, speed.bandwidth, best, best, speed.latency, speed.operation, 0.0, reached,
               speed.update, speed.whole, speed.engines)
