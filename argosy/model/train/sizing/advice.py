"""Advises what to change when a GPU's memory is full, in the order of practitioners, with what each change needs."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from argosy.model.train.sizing.architecture import Architecture
from argosy.model.train.sizing.gpus import RESERVE
from argosy.model.train.sizing.job import Job, Layout, read_job, read_layout
from argosy.model.train.sizing.layouts import Proposal, fields, fit, flow, propose
from argosy.model.train.sizing.memory import Memory, memory

_LESS = 0.9  # of the estimate, that a change must come to: what ran out of memory may need more than it


def gigabytes(size: float) -> str:
    """`size` bytes in GB (10^9): two digits that count, or all before the point."""
    giga = size / 1e9
    return f"{giga:.0f}" if giga >= 100 else f"{giga:.1f}" if giga >= 1 else f"{giga:.2g}"


def held(found: Memory) -> str:
    """Return the largest parts in words: `activations 33.5, weights 16.1 GB`."""
    parts = sorted(found.parts.items(), key=lambda item: -item[1])[:4]
    return ", ".join(f"{name} {gigabytes(size)}" for name, size in parts if size) + " GB"


def written(values: Mapping[str, Any]) -> str:
    """Return fields as they are written: `processes=8 engine={name: zero, stage: 2}`."""
    return " ".join(f"{name}={flow(value)}" for name, value in values.items())


def advice(config: Mapping[str, Any], model: Architecture, processes: int, capacity: float,
           allowed: Callable[[Mapping[str, Any]], bool] = lambda values: True) -> list[str]:
    """Return what to change, the first to try first; the list ends with the first change that fits by itself.

    Args:
        config: the fields of a phase of training (`TrainConfig`).
        capacity: bytes of a GPU's memory.
        allowed: whether the phase can have these fields in place of its own; what it cannot have is not named.

    Returns:
        A line for each: the fields, the memory that the estimate gives for them, and whether that fits."""
    job, now = read_job(config, model), read_layout(config, processes)
    usable, needed = capacity * (1 - RESERVE), memory(job, now)
    lines = [f"the estimate is {gigabytes(needed.total)} GB a GPU, of {gigabytes(usable)} that may be filled: "
             f"{held(needed)}"]
    if needed.total <= usable:
        lines.append("so that it should fit: look for other processes on the GPU, and set PYTORCH_ALLOC_CONF="
                     "expandable_segments:True against gaps")
    goal = min(usable, _LESS * needed.total)

    def possible(tried: Proposal) -> bool:
        values = _fields(tried, config)
        return values is not None and allowed(values)

    for words, tried in _changes(job, now, goal, config):
        if not possible(tried):
            continue
        verdict = "" if tried.fits else ", not enough by itself"
        lines.append(f"{words}: {gigabytes(tried.memory.total)} GB a GPU{verdict}")
        if tried.fits:
            return lines
    together = propose(job, goal, processes, processes, most=1, allowed=possible).fitting
    for each in together:
        lines.append(f"together: {each.name}, micro_batch_size={each.job.micro_batch_size}: "
                     f"{gigabytes(each.memory.total)} GB a GPU")
    if not together:
        lines.append(f"nothing fits on {processes} of these GPUs: take more of them, or a smaller model")
    return lines


def _fields(tried: Proposal, config: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the fields that a layout is set by in place of the present one's; None: the engines do not have it."""
    named = fields(tried.layout)
    if named is None:
        return None
    axes: dict[str, Any] = {f"{axis}_parallel": 1 for axis in ("tensor", "pipeline", "sequence", "expert")}
    axes |= {"recompute_blocks": 1.0, "sequence_attention": "ulysses"}
    if tried.layout.pipeline == 1:
        axes["pipeline_interleave"] = 1
    if tried.layout.pipeline == 1 or tried.layout.recompute != "none":
        axes["pipeline_schedule"] = "1f1b"
    own = {"micro_batch_size": tried.job.micro_batch_size, "sequence_length": tried.job.sequence_length}
    return {"processes": 1, "engine": "auto", **axes, **named, **own}


def _changes(job: Job, now: Layout, usable: float, config: Mapping[str, Any]) -> Iterator[tuple[str, Proposal]]:
    """Yield each change with what it comes to, at the micro-batch that fits it best."""
    first = fit(job, now, usable)
    if first.job.micro_batch_size < now.micro_batch(job):
        yield f"micro_batch_size={first.job.micro_batch_size} (the result is the same)", first
    for layout in _layouts(job, now):
        tried = fit(job, layout, usable)
        named = {name: value for name, value in (fields(layout) or {}).items() if name != "processes"}
        micro = tried.job.micro_batch_size
        if micro != now.micro_batch(replace(tried.job, micro_batch_size=0)):
            named["micro_batch_size"] = micro
        yield written(named), tried
    more = replace(now, gpus=2 * now.gpus)
    if now.zero:
        yield f"processes={more.gpus}, which divide the states further", fit(job, more, usable)
    if job.model.kv_heads % (2 * now.tensor) == 0:
        shards = now.data > 1 and now.pipeline * now.expert == 1
        wider = replace(now, gpus=2 * now.gpus, tensor=2 * now.tensor, zero=3 if shards else 0,
                        engine="fsdp" if shards else "torch", offload="none")
        yield f"{written(fields(wider) or {})}, which divide each block", fit(job, wider, usable)
    shorter = replace(job, sequence_length=max(2, job.sequence_length // 2), micro_batch_size=1)
    yield f"sequence_length={shorter.sequence_length}, which is another model", fit(shorter, now, usable)
    all_of = "recompute=full, recomputation of activations" if now.recompute == "none" else "recompute_blocks=1"
    yield f"{all_of}, a third more arithmetic", fit(job, replace(now, recompute="full", recomputed=1.0), usable)


def _layouts(job: Job, now: Layout) -> Iterator[Layout]:
    """Yield the divisions of the states that go further than the present one."""
    several = now.data > 1
    for zero in range(now.zero + 1, 3) if several and job.divisible else ():
        yield replace(now, zero=zero, engine="zero")
    if now.offload == "none" and now.zero < 3 and job.divisible:
        yield replace(now, zero=2, engine="zero", offload="optimizer")
    if several and now.zero < 3:
        if job.divisible:
            yield replace(now, zero=3, engine="zero")
        if job.shardable:
            yield replace(now, zero=3, engine="fsdp", offload="none")
