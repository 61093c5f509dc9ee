"""Types of GPUs, by their makers' data sheets and an assumed price; FLOPs of training, and how long they take."""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from argosy.core.config.explain import likely
from argosy.core.errors import InputError
from argosy.model.train.sizing.architecture import Architecture
from argosy.model.train.sizing.job import Job, Layout

GIB = 2.0**30
RESERVE = 0.08  # of the memory: the allocator's gaps, and what nobody counted
MFU = 0.4  # Llama 3 (Dubey et al. 2024, table 4) reaches 0.38 to 0.43 with fused kernels


@dataclass(frozen=True)
class Gpu:
    """A type of GPU."""

    name: str
    memory: float
    """Bytes that a driver shows."""
    flops: float
    """Dense bfloat16 operations a second, at best."""
    bandwidth: float
    """Bytes a second of its memory."""
    link: float
    """Bytes a second that it sends to others of its node."""
    network: float
    """Bytes a second that it sends to other nodes, as such nodes are usually built."""
    price: float
    """Dollars an hour, in round numbers of rented ones: an assumption that --price replaces."""
    latency: float = 2e-5
    """Seconds that a message to others takes, however short, by NCCL within a node: an assumption."""

    @property
    def usable(self) -> float:
        """Bytes that a layout may fill."""
        return self.memory * (1 - RESERVE)

    @property
    def ridge(self) -> float:
        """Operations a byte from which on its arithmetic, and not its memory, is the limit (Williams et al. 2009)."""
        return self.flops / self.bandwidth


_DATA: dict[str, dict[str, Any]] = yaml.safe_load(Path(__file__).with_suffix(".yaml").read_text(encoding="utf-8"))
GPUS = {name: Gpu(name, gib * GIB, tera * 1e12, bandwidth * 1e9, link * 1e9, network * 1e9, price)
        for name, (gib, tera, bandwidth, link, network, price) in _DATA["gpus"].items()}  # fmt: skip

WITHOUT_FP8 = tuple(_DATA["without_fp8"])


def find_gpu(name: str) -> Gpu:
    """Return the type of this name, in any case. Raises InputError: there is none; names the nearest."""
    if name.lower() not in GPUS:
        raise InputError(f"--gpu is {name!r}, allowed: {', '.join(sorted(GPUS))}; {likely(name.lower(), GPUS)}")
    return GPUS[name.lower()]


def gpu_of(device: str) -> Gpu | None:
    """Return the type of the GPU that its driver calls `device`; None where its peak is not known here."""
    return GPUS.get(_DATA["devices"].get(device, ""))


def divisors(number: int, among: Iterable[int]) -> list[int]:
    """List those `among` numbers that divide `number`."""
    return [each for each in among if number % each == 0]


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
    return 3 * forward + int((forward - head) * layout.again)


def six_n_d(model: Architecture, tokens: int) -> int:
    """Return 6ND (Kaplan et al. 2020), N being the parameters that a token meets."""
    return 6 * model.active_parameters * tokens


def intensity(job: Job, layout: Layout) -> float:
    """Return the operations a byte of the largest matrix product of a block, of one micro-batch.

    Its two inputs and its output go through the memory once."""
    model, size = job.model, job.product
    tokens = float(layout.micro_batch(job) * job.sequence_length)
    inner = model.intermediate_size / layout.tensor
    if model.sparse_layers:
        inner, tokens = model.expert_size / layout.tensor, tokens * model.experts_per_token / model.experts
    hidden = model.hidden_size
    return 2 * tokens * hidden * inner / (size * (tokens * hidden + hidden * inner + tokens * inner))


def bubble(job: Job, layout: Layout) -> float:
    """Return the time that a pipeline waits, as a share of the time that it works (Narayanan et al. 2021), of
    which zero bubble leaves a third (Qi et al. 2023)."""
    return (layout.pipeline - 1) / (layout.accumulation(job) * layout.interleave * (3 if layout.zero_bubble else 1))


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
