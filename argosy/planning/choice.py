"""The layouts that are worth a try on a machine, by the time that the planner expects of a step, and what they send.

Bytes that a GPU sends to others in an optimizer step: a ring sends (n - 1) / n of what it gathers or scatters, and both
for a sum over all (Patarasuk & Yuan 2009); ZeRO's volumes are those of section 7 of its paper, tensor parallelism's
those of Shoeybi et al. 2019."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from argosy.model.train.sizing.gpus import Gpu, bubble, head_flops, training_flops
from argosy.model.train.sizing.job import Job, Layout
from argosy.model.train.sizing.layouts import Proposal, fields, fit, ladder
from argosy.model.train.sizing.memory import BUCKET, parameters_on_gpu, states

_LAYERS = 9  # of a block of Llama's type, each with a weight: seven matrices and two norms


@dataclass(frozen=True)
class Sent:
    """Traffic that one GPU sends in a step for one purpose."""

    kind: str
    """The collective."""
    purpose: str
    bytes: float
    nodes: bool
    """Whether it goes between nodes."""
    messages: float
    """Collectives of a step."""

    def seconds(self, gpu: Gpu) -> float:
        """Return the time that it takes, nothing of it hidden behind arithmetic."""
        link = (gpu.network if self.nodes else gpu.link) * gpu.reached.get(self.kind, 1.0)
        return self.bytes / link + self.messages * gpu.latency


def traffic(job: Job, layout: Layout, per_node: int) -> list[Sent]:
    """List what a GPU sends in a step, the most first. `per_node`: GPUs of a node."""
    found = [*_data(job, layout, per_node), *_tensor(job, layout), *_pipeline(job, layout, per_node),
             *_experts(job, layout, per_node)]
    return sorted((sent for sent in found if sent.bytes), key=lambda sent: -sent.bytes)


def _data(job: Job, layout: Layout, per_node: int) -> list[Sent]:
    count, size, ranks = parameters_on_gpu(job, layout), job.bytes, layout.shards
    ring, far = (ranks - 1) / ranks, ranks * layout.tensor * layout.pipeline > per_node
    weights, gradients = size.weight * count * ring, size.gradient * count * ring
    gathered, buckets = _messages(job, layout, size.gradient * count)
    if layout.zero == 0:
        return [Sent("all-reduce", "gradients", 2 * gradients, far, buckets)]
    passes = layout.accumulation(job)  # sharded gradients are summed after each micro-batch
    sums = passes if layout.zero >= 2 else 1
    found = [Sent("reduce-scatter", "gradients", sums * gradients, far, sums * buckets)]
    times = 2 * passes if layout.zero == 3 else 1
    purpose = "weights" + (", forward and backward" if times > 1 else "")
    found.append(Sent("all-gather", purpose, times * weights, far, times * gathered))
    copies = layout.data // ranks
    if copies > 1:
        shard = 2 * (copies - 1) / copies * size.gradient * count / ranks
        found.append(Sent("all-reduce", "gradients of the copies", shard, layout.gpus > per_node, buckets))
    return found


def _messages(job: Job, layout: Layout, gradients: float) -> tuple[float, float]:
    """Return the collectives that gather the weights once, and those that sum the gradients once.

    FSDP2 and ddp send a block at a time, and what is around the blocks; ZeRO-3 gathers each layer of a block by itself;
    the others send buckets of gradients, or all at once."""
    if layout.shards * (layout.data // layout.shards) == 1:
        return 0.0, 0.0
    blocks = -(-job.model.layers // layout.pipeline)
    if layout.engine in ("ddp", "fsdp"):
        return blocks + 1.0, blocks + 1.0
    if layout.engine == "torch":
        return 1.0, 1.0
    bucket = job.bytes.gradient * BUCKET
    return (_LAYERS * blocks + 3.0 if layout.zero == 3 else 1.0), 1.0 + gradients // bucket


def _activation(job: Job, layout: Layout) -> float:
    """Bytes of the residual stream of all of a step's micro-batches, as it is sent."""
    tokens = layout.accumulation(job) * layout.micro_batch(job) * job.sequence_length
    return tokens * job.model.hidden_size * job.bytes.product


def _tensor(job: Job, layout: Layout) -> list[Sent]:
    ring = (layout.tensor - 1) / layout.tensor
    blocks = -(-job.model.layers // layout.pipeline)
    times = 6 if layout.recompute == "full" else 4  # two sums in the forward of a block, two in its backward
    kind = "all-gather and reduce-scatter" if layout.sequence else "all-reduce"  # as many bytes
    total = times * blocks * 2 * ring * _activation(job, layout)
    messages = times * blocks * layout.accumulation(job) if layout.tensor > 1 else 0.0
    return [Sent(kind, "activations of tensor parallelism", total, False, messages)]


def _pipeline(job: Job, layout: Layout, per_node: int) -> list[Sent]:
    if layout.pipeline == 1:
        return []
    divided = layout.tensor if layout.sequence else 1
    return [Sent("point to point", "activations and their gradients between stages",
                 2 * _activation(job, layout) / divided, layout.gpus > per_node, 2.0 * layout.accumulation(job))]


def _experts(job: Job, layout: Layout, per_node: int) -> list[Sent]:
    blocks = job.model.sparse_layers / layout.pipeline
    away = (layout.expert - 1) / layout.expert
    total = 4 * blocks * job.model.experts_per_token * away * _activation(job, layout)  # there and back, twice
    return [Sent("all-to-all", "tokens to experts and back", total, layout.expert * layout.tensor > per_node,
                 4 * blocks * layout.accumulation(job))]


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
    shards = layout.shards if layout.zero else 1
    weights = parameters_on_gpu(job, layout) * (2 * job.bytes.weight + job.bytes.gradient) / shards
    read_and_written = weights + 2 * states(job, layout)["optimizer"]  # gradients once, weights and state twice
    update = read_and_written / gpu.bandwidth + blocks * gpu.update
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
