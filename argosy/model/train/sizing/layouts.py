"""Layouts of a job over GPUs, in the order in which practitioners try them, each with why it does or does not fit.

Data parallelism alone while it fits; then ZeRO's stages, offload before the third; then experts, tensors and pipelines,
which no layout has that does without them; recomputation, which costs a third more arithmetic, last."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from argosy.model.train.sizing.gpus import divisors
from argosy.model.train.sizing.job import FLOAT, Job, Layout
from argosy.model.train.sizing.memory import Memory, memory


@dataclass(frozen=True)
class Proposal:
    """A layout with what it needs: at the job's micro-batch, or at the largest that fits."""

    layout: Layout
    job: Job
    """The job, with the micro-batch of this proposal."""
    memory: Memory
    fits: bool

    @property
    def name(self) -> str:
        return describe(self.layout)


@dataclass(frozen=True)
class Proposals:
    """The layouts that fit, the best first, and those before the first of them, which do not."""

    fitting: tuple[Proposal, ...]
    failing: tuple[Proposal, ...]


def describe(layout: Layout) -> str:
    axes = {"pipeline of": layout.pipeline, "tensors over": layout.tensor, "experts over": layout.expert,
            "samples over": layout.context}
    words = [f"{what} {size}" for what, size in axes.items() if size > 1]
    if layout.zero:
        words.append("FSDP2" if layout.engine == "fsdp" else f"ZeRO-{layout.zero}")
    elif layout.data > 1:
        words.append("data parallelism")
    if layout.offload != "none":
        where = "on NVMe" if layout.nvme else "in the CPU's memory"
        words.append(f"{'optimizer' if layout.offload == 'optimizer' else 'all states'} {where}")
    if layout.recompute != "none":
        share = "all" if layout.recomputed == 1 else f"{layout.recomputed:.0%} of the blocks"
        words.append(f"recomputation of {share}")
    return ", ".join(words) or "one GPU"


def fields(layout: Layout) -> dict[str, Any] | None:
    """Return the fields of a phase that set the layout; None: Argosy's engines do not divide a model that way."""
    if (_divides(layout) and layout.engine == "zero") or (layout.zero and layout.shard and layout.expert > 1):
        return None
    found: dict[str, Any] = {"processes": layout.gpus} if layout.gpus > 1 else {}
    axes = {"tensor": layout.tensor, "pipeline": layout.pipeline, "sequence": layout.context, "expert": layout.expert}
    found |= {f"{axis}_parallel": size for axis, size in axes.items() if size > 1}
    found |= {"sequence_attention": "gather"} if layout.whole_keys and layout.context > 1 else {}
    half = {"param_dtype": "bfloat16"} if layout.gathered < FLOAT else {}
    if layout.zero and layout.engine == "fsdp":
        options: dict[str, Any] = ({"shard_size": layout.shard} if layout.shard else {}) | half
        options |= {} if layout.reshard else {"reshard": False}
        found["engine"] = {"name": "fsdp", **options} if options else "fsdp"
    elif layout.zero:
        disk = {"nvme_path": layout.nvme} if layout.nvme else {}
        offload = {"offload": layout.offload, **disk} if layout.offload != "none" else {}
        found["engine"] = {"name": "zero", "stage": layout.zero, **offload, **half}
    if layout.recompute == "full":
        found |= {"recompute": "full"} | ({"recompute_blocks": layout.recomputed} if layout.recomputed < 1 else {})
    return found


def flow(value: Any) -> str:
    """Return the value of a field in one line of YAML."""
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{name}: {each}" for name, each in value.items()) + "}"
    return str(value)


def ladder(job: Job, gpus: int, per_node: int) -> Iterator[Layout]:
    """Yield the layouts of `gpus` in the order in which they are tried."""
    for recompute in ("none", "full"):
        for layout in (*_divided(job, gpus), *_parallel(job, gpus, per_node)):
            if layout.pipeline == 1 or job.global_batch_size % (layout.data * layout.pipeline) == 0:
                yield replace(layout, recompute=recompute)


def _divided(job: Job, gpus: int) -> Iterator[Layout]:
    plain = Layout(gpus, engine="zero" if job.divisible else "torch")
    yield plain
    if job.divisible:
        yield from (replace(plain, zero=stage) for stage in (1, 2) if gpus > 1)
        yield replace(plain, zero=2, offload="optimizer")
        if gpus > 1:
            yield replace(plain, zero=3)
    if gpus > 1 and job.shardable:
        yield replace(plain, zero=3, engine="fsdp")


def _parallel(job: Job, gpus: int, per_node: int) -> Iterator[Layout]:
    """Yield the layouts that divide the computation, the least division first."""
    model = job.model
    node = min(gpus, per_node)
    widths = divisors(model.kv_heads, divisors(model.heads, divisors(gpus, (2, 4, 8, 16))))
    widths = [width for width in widths if width <= node]
    # other optimizers need whole tensors, of all experts
    experts = divisors(model.experts, divisors(gpus, range(2, node + 1))) if model.experts and job.shardable else []
    for expert in experts:
        yield from _also_sharded(job, Layout(gpus, expert=expert, engine="torch"))
    if not job.divisible:  # they need whole matrices
        widths = []
    for width in widths:
        yield [*_also_sharded(job, Layout(gpus, tensor=width, engine="torch"))][-1]
    width = max(widths, default=1)
    for stages in divisors(model.layers, divisors(gpus, range(2, gpus + 1))):
        for expert in divisors(gpus // stages, experts):
            yield from _also_sharded(job, Layout(gpus, pipeline=stages, expert=expert, engine="torch"))
        if gpus % (width * stages) == 0:
            yield from _also_sharded(job, Layout(gpus, tensor=width, pipeline=stages, engine="torch"))


def _also_sharded(job: Job, layout: Layout) -> Iterator[Layout]:
    """Yield a layout, and with FSDP2 where several processes have some of the same weights."""
    yield layout
    if layout.data > 1 and job.shardable:
        yield replace(layout, zero=3, engine="fsdp")


def fit(job: Job, layout: Layout, usable: float) -> Proposal:
    """Try the job's micro-batch, then smaller ones, which change no result and cost the least.

    Returns the first that fits in `usable` bytes, in a number that a pipeline's stages divide; or that of one sample,
    which does not."""
    samples = layout.micro_batch(job)
    for micro in (each for each in range(samples, 0, -1) if samples % each == 0):
        tried = replace(job, micro_batch_size=micro)
        found = memory(tried, layout)
        if found.total <= usable and layout.accumulation(tried) % layout.pipeline == 0:
            break
    return Proposal(layout, tried, found, found.total <= usable)


def propose(job: Job, usable: float, gpus: int, per_node: int, most: int = 3,
            allowed: Callable[[Proposal], bool] = lambda tried: True) -> Proposals:
    """Try the layouts in order, until `most` are worth a look. `usable`: bytes of a GPU; `per_node`: GPUs of a node;
    `allowed`: whether what fits can be had at all."""
    fitting: list[Proposal] = []
    failing: list[Proposal] = []
    for layout in ladder(job, gpus, per_node):
        tried = fit(job, layout, usable)
        if not tried.fits:
            failing += [] if fitting else [tried]
        elif allowed(tried) and _worth(tried, fitting):
            fitting.append(tried)
        if len(fitting) == most:
            break
    return Proposals(tuple(fitting), tuple(failing))


def _worth(tried: Proposal, before: Sequence[Proposal]) -> bool:
    """Tell whether a layout that fits has something that those before it lack: it divides no computation where the
    first does, or it needs no other's help and takes a larger micro-batch."""
    if not before:
        return True
    if _divides(tried.layout) or tried.layout.offload != "none":
        return False
    largest = max(each.job.micro_batch_size for each in before)
    return all(_divides(each.layout) for each in before) or tried.job.micro_batch_size > largest


def _divides(layout: Layout) -> bool:
    return layout.tensor * layout.pipeline * layout.expert * layout.context > 1
