"""Types of GPUs, by their makers' data sheets and an assumed price; FLOPs of training, and how long they take."""

from collections.abc import Iterable
from dataclasses import dataclass

from argosy.core.config.explain import likely
from argosy.core.errors import InputError
from argosy.model.train.sizing.architecture import Architecture
from argosy.model.train.sizing.job import Job, Layout

GIB = 2.0**30
RESERVE = 0.08  # of the memory: the allocator's gaps, and what nobody counted
LATENCY = 2e-5  # of a collective of NCCL's within a node: an assumption
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
    latency: float
    """Seconds that a message to others takes, however short."""
    price: float
    """Dollars an hour, in round numbers of rented ones: an assumption that --price replaces."""

    @property
    def usable(self) -> float:
        """Bytes that a layout may fill."""
        return self.memory * (1 - RESERVE)

    @property
    def ridge(self) -> float:
        """Operations a byte from which on its arithmetic, and not its memory, is the limit (Williams et al. 2009)."""
        return self.flops / self.bandwidth


def _gpu(name: str, gib: float, tera: float, giga: float, link: float, network: float, price: float) -> Gpu:
    """`gib` of memory, 1e12 operations, 1e9 bytes of bandwidth, of links and of network, a second."""
    return Gpu(name, gib * GIB, tera * 1e12, giga * 1e9, link * 1e9, network * 1e9, LATENCY, price)


# NVLink's and PCIe's data sheets count both directions: links here are one.
GPUS = {gpu.name: gpu for gpu in (
    _gpu("h100", 79.6, 989.4, 3350, 450, 50, 2.5),
    _gpu("h200", 140.4, 989.4, 4800, 450, 50, 3.5),
    _gpu("h800", 79.6, 989.4, 3350, 200, 50, 2.0),
    _gpu("h20", 95.6, 148, 4000, 450, 50, 1.3),
    _gpu("b200", 179, 2250, 8000, 900, 50, 5.0),
    _gpu("a100", 80, 312, 2039, 300, 25, 1.6),
    _gpu("a100-40", 40, 312, 1555, 300, 25, 1.2),
    _gpu("a800", 80, 312, 2039, 200, 25, 1.4),
    _gpu("mi300x", 192, 1307.4, 5300, 448, 50, 2.5),
    _gpu("l40s", 45, 362, 864, 32, 25, 1.0),
    _gpu("l4", 22.5, 121, 300, 32, 12.5, 0.6),
    _gpu("a10", 22.5, 125, 600, 32, 12.5, 0.75),
    _gpu("rtx4090", 24, 165.2, 1008, 32, 12.5, 0.4),
)}  # fmt: skip


def find_gpu(name: str) -> Gpu:
    """Return the type of this name, in any case. Raises InputError: there is none; names the nearest."""
    if name.lower() not in GPUS:
        raise InputError(f"--gpu is {name!r}, allowed: {', '.join(sorted(GPUS))}; {likely(name.lower(), GPUS)}")
    return GPUS[name.lower()]


_DEVICES = {
    "NVIDIA H100 80GB HBM3": "h100", "NVIDIA H200": "h200", "NVIDIA H800": "h800", "NVIDIA H20": "h20",
    "NVIDIA B200": "b200", "NVIDIA A100-SXM4-80GB": "a100", "NVIDIA A100 80GB PCIe": "a100",
    "NVIDIA A100-SXM4-40GB": "a100-40", "NVIDIA A100-PCIE-40GB": "a100-40", "NVIDIA A800-SXM4-80GB": "a800",
    "NVIDIA A800 80GB PCIe": "a800", "AMD Instinct MI300X": "mi300x", "NVIDIA L40S": "l40s", "NVIDIA L4": "l4",
    "NVIDIA A10": "a10", "NVIDIA GeForce RTX 4090": "rtx4090",
}  # whole names: an H100 PCIe or an A10G has another peak


def gpu_of(device: str) -> Gpu | None:
    """Return the type of the GPU that its driver calls `device`; None where its peak is not known here."""
    return GPUS[_DEVICES[device]] if device in _DEVICES else None


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
    return 3 * forward + (forward - head if layout.recompute == "full" else 0)


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
