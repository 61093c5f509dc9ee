"""The layouts that are worth a try on a machine, by the time that the planner expects of a step."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from argosy.sizing.compute import bubble, training_flops
from argosy.sizing.gpus import Gpu
from argosy.sizing.job import Job, Layout
from argosy.sizing.layouts import Proposal, fields, fit, ladder
from argosy.sizing.traffic import traffic

ALIKE = 0.02  # shorter by less than this share is no reason to try a layout that is less simple
Values = dict[str, Any]


@dataclass(frozen=True)
class Candidate:
    """A layout that fits, with the fields of a phase that set it."""

    proposal: Proposal
    values: Values
    seconds: float
    """Of an optimizer step, expected."""

    @property
    def name(self) -> str:
        """Return it in words."""
        return self.proposal.name


def step_seconds(job: Job, layout: Layout, gpu: Gpu, mfu: float, per_node: int) -> float:
    """Return the time of an optimizer step: arithmetic at `mfu` of the peak, and traffic of which nothing is hidden."""
    tokens = job.global_batch_size * job.sequence_length
    work = training_flops(job, layout, tokens) * (1 + bubble(job, layout))
    sent = sum(each.seconds(gpu) for each in traffic(job, layout, per_node))
    return work / (layout.gpus * gpu.flops * mfu) + sent


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


def of_cpu(memory: float, flops: float) -> Gpu:
    """Return a process's share of a CPU as a type of GPU: bytes of memory, operations a second of a matrix product.

    Processes exchange 1 GB a second over the loopback, which is assumed."""
    return replace(_CPU, memory=memory, flops=flops)


_CPU = Gpu("cpu", memory=0.0, flops=0.0, bandwidth=1e10, link=1e9, network=1e9, price=0.0)
