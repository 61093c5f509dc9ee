"""Bytes that a GPU sends to others in an optimizer step, by layout.

A ring sends (n - 1) / n of what it gathers or scatters, and both for a sum over all (Patarasuk & Yuan 2009); ZeRO's
volumes are those of section 7 of its paper, tensor parallelism's those of Shoeybi et al. 2019."""

from dataclasses import dataclass

from argosy.model.train.sizing.gpus import Gpu
from argosy.model.train.sizing.job import Job, Layout
from argosy.model.train.sizing.memory import BUCKET, parameters_on_gpu

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
        return self.bytes / (gpu.network if self.nodes else gpu.link) + self.messages * gpu.latency


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

