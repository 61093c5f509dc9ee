"""FLOPs of training, how well a GPU can do them, and how long it takes."""

from dataclasses import dataclass

from argosy.model.train.sizing.architecture import Architecture
from argosy.model.train.sizing.gpus import Gpu
from argosy.model.train.sizing.job import Job, Layout


def forward_flops(model: Architecture, tokens: int, sequence_length: int) -> int:
    """Return the FLOPs of all matrix products of a forward, the output layer's included.

    Scores are counted for all pairs of tokens, as the field does (Chowdhery et al. 2022, appendix B): a mask saves
    some of them."""
    scores = 4 * tokens * sequence_length * model.query_size * model.layers
    return 2 * model.multiplied * tokens + scores


def training_flops(job: Job, layout: Layout, tokens: int) -> int:
    """Return the FLOPs of training on `tokens`: forward, a backward of twice as many, and what is made anew."""
    forward = forward_flops(job.model, tokens, job.sequence_length)
    head = 2 * job.model.vocab_size * job.model.hidden_size * tokens
    anew = {"none": 0, "full": forward - head,
            "selective": 4 * tokens * job.sequence_length * job.model.query_size * job.model.layers}
    return 3 * forward + anew[layout.recompute]


def head_flops(model: Architecture, tokens: int) -> int:
    """Return the FLOPs of the output layer, forward and backward, which is never made anew."""
    return 6 * model.vocab_size * model.hidden_size * tokens


def six_n_d(model: Architecture, tokens: int) -> int:
    """Return 6ND (Kaplan et al. 2020), N being the parameters that a token meets."""
    return 6 * model.active_parameters * tokens


def intensity(job: Job, layout: Layout) -> float:
    """Return the operations a byte of the largest matrix product of a block, of one micro-batch.

    Its two inputs and its output go through the memory once."""
    model, size = job.model, job.bytes.product
    tokens = float(layout.micro_batch(job) * job.sequence_length)
    inner = model.intermediate_size / layout.tensor
    if model.sparse_layers:
        inner, tokens = model.expert_size / layout.tensor, tokens * model.experts_per_token / model.experts
    hidden = model.hidden_size
    return 2 * tokens * hidden * inner / (size * (tokens * hidden + hidden * inner + tokens * inner))


def bubble(job: Job, layout: Layout) -> float:
    """Return the time that a pipeline waits, as a share of the time that it works (Narayanan et al. 2021)."""
    return (layout.pipeline - 1) / layout.accumulation(job)


@dataclass(frozen=True)
class Estimate:
    """Duration and cost of a training."""

    seconds: float
    """Seconds for all tokens of the job."""
    tokens_a_day: float
    cost: float
    """Dollars."""


def estimate(job: Job, layout: Layout, gpu: Gpu, mfu: float, price: float) -> Estimate:
    """Estimate from `mfu`, the share of the GPU's peak that the model's own FLOPs reach, recomputed ones aside.

    `price`: dollars an hour of one GPU."""
    anew = training_flops(job, layout, 1) / training_flops(job, Layout(), 1)
    work = training_flops(job, Layout(), job.tokens) * anew * (1 + bubble(job, layout))
    seconds = work / (layout.gpus * gpu.flops * mfu)
    return Estimate(seconds, job.tokens / seconds * 86400, seconds / 3600 * layout.gpus * price)
