"""Bytes that a GPU sends to others in an optimizer step, by kind.

A ring sends (n - 1) / n of what it gathers or scatters, and both for a sum over all (Patarasuk & Yuan 2009); ZeRO's
volumes are those of section 7 of its paper, tensor parallelism's those of Shoeybi et al. 2019."""

from dataclasses import dataclass

from argosy.sizing.gpus import Gpu
from argosy.sizing.job import Job, Layout
from argosy.sizing.memory import parameters_on_gpu


@dataclass(frozen=True)
class Sent:
    """What one GPU sends in a step for one purpose."""

    kind: str
    """The collective."""
    purpose: str
    bytes: float
    nodes: bool
    """Whether it goes between nodes."""

    def seconds(self, gpu: Gpu) -> float:
        """Return the time that the link takes, nothing of it hidden behind arithmetic."""
        return self.bytes / (gpu.network if self.nodes else gpu.link)


def traffic(job: Job, layout: Layout, per_node: int) -> list[Sent]:
    """List what a GPU sends in a step, the most first. `per_node`: GPUs of a node."""
    found = [*_data(job, layout, per_node), *_tensor(job, layout), *_pipeline(job, layout, per_node),
             *_experts(job, layout, per_node)]
    return sorted((sent for sent in found if sent.bytes), key=lambda sent: -sent.bytes)


def _data(job: Job, layout: Layout, per_node: int) -> list[Sent]:
    count, size, ranks = parameters_on_gpu(job, layout), job.bytes, layout.shards
    ring, far = (ranks - 1) / ranks, ranks * layout.tensor * layout.pipeline > per_node
    weights, gradients = size.weight * count * ring, size.gradient * count * ring
    if layout.zero == 0:
        return [Sent("all-reduce", "gradients", 2 * gradients, far)]
    passes = layout.accumulation(job)  # sharded gradients are summed after each micro-batch
    found = [Sent("reduce-scatter", "gradients", (passes if layout.zero >= 2 else 1) * gradients, far)]
    times = 2 * passes if layout.zero == 3 else 1
    found.append(Sent("all-gather", "weights" + (", forward and backward" if times > 1 else ""), times * weights, far))
    copies = layout.data // ranks
    if copies > 1:
        shard = 2 * (copies - 1) / copies * size.gradient * count / ranks
        found.append(Sent("all-reduce", "gradients of the copies", shard, layout.gpus > per_node))
    return found


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
    return [Sent(kind, "activations of tensor parallelism", total, False)]


def _pipeline(job: Job, layout: Layout, per_node: int) -> list[Sent]:
    if layout.pipeline == 1:
        return []
    divided = layout.tensor if layout.sequence else 1
    return [Sent("point to point", "activations and their gradients between stages",
                 2 * _activation(job, layout) / divided, layout.gpus > per_node)]


def _experts(job: Job, layout: Layout, per_node: int) -> list[Sent]:
    blocks = job.model.sparse_layers / layout.pipeline
    away = (layout.expert - 1) / layout.expert
    total = 4 * blocks * job.model.experts_per_token * away * _activation(job, layout)  # there and back, twice
    return [Sent("all-to-all", "tokens to experts and back", total, layout.expert * layout.tensor > per_node)]
