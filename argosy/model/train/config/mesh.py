"""Division of a phase over processes: those that share a copy of the model, and those that see other samples."""

from collections.abc import Mapping
from math import prod
from typing import Annotated, Any, Literal

from pydantic import Field

from argosy.core.config.schema import ADDED, ParallelConfig


class MeshConfig(ParallelConfig):
    """Fields of every phase that share a copy of the model out; the processes that are left see other samples."""

    tensor_parallel: Annotated[int, Field(ge=1), ADDED] = 1
    """Processes that share each block's heads and feed-forward width (Shoeybi et al. 2019), and around them each sample
    (Korthikanti et al. 2022); a divisor of all three."""
    pipeline_parallel: Annotated[int, Field(ge=1), ADDED] = 1
    """Processes that have some blocks each, which micro-batches pass through in turn (1F1B)."""
    pipeline_interleave: Annotated[int, Field(ge=1), ADDED] = 1
    """Stages of each of them, which shortens the time that they wait (Narayanan et al. 2021)."""
    pipeline_schedule: Annotated[Literal["1f1b", "zero_bubble"], ADDED] = "1f1b"
    """Order of their work: zero_bubble fills most of that time with weights' gradients (Qi et al. 2023)."""
    sequence_parallel: Annotated[int, Field(ge=1), ADDED] = 1
    """Processes that have a part of each sample; a divisor of `sequence_length` and, with ulysses, of the heads."""
    sequence_attention: Annotated[Literal["ulysses", "gather"], ADDED] = "ulysses"
    """Messages of their attention: ulysses exchanges parts of samples for heads (Jacobs et al. 2023), gather sends keys
    and values to all, which is little where query heads share them (Llama Team 2024)."""
    expert_parallel: Annotated[int, Field(ge=1), ADDED] = 1
    """Processes that share the experts, each with other samples (Lepikhin et al. 2020); a divisor of their number."""

    @property
    def divisors(self) -> dict[str, int]:
        """Return the processes along each axis, by the field that holds them."""
        return {name: getattr(self, name) for name in
                ("tensor_parallel", "pipeline_parallel", "sequence_parallel", "expert_parallel")}

    @property
    def divides(self) -> bool:
        """Whether a copy of the model is shared out over processes."""
        return prod(self.divisors.values()) > 1

    @property
    def sample_groups(self) -> int:
        """Return the number of groups of processes that see other samples than the others do."""
        return self.processes // (self.tensor_parallel * self.pipeline_parallel * self.sequence_parallel)

    def shape_problem(self, shapes: Mapping[str, Any]) -> str:
        """Say why a model cannot be shared out this way, and the nearest that works; "" where it can.

        `shapes`: the fields of its config.json, such as num_attention_heads."""
        width, parts = self.tensor_parallel, self.sequence_parallel
        heads = {name: shapes[name] for name in ("num_attention_heads", "num_key_value_heads") if shapes.get(name)}
        inner = {"intermediate_size": shapes["intermediate_size"]} if shapes.get("intermediate_size") else {}
        if problem := _indivisible("tensor_parallel", width, {**heads, **inner}):
            return problem
        given = heads if self.sequence_attention == "ulysses" else {}
        if problem := _indivisible("sequence_parallel", parts, {name: size // width for name, size in given.items()}):
            whose = f", as tensor_parallel={width} leaves a process so many" if width > 1 else ""
            return f"{problem}{whose}; or set sequence_attention=gather, which divides no heads"
        drops = next((name for name, value in shapes.items() if name.endswith("dropout") and value), "")
        if drops and width * parts > 1:
            return (f"tensor_parallel={width} and sequence_parallel={parts} would each draw other numbers than one "
                    f"process for {drops}={shapes[drops]}: set both to 1")
        stages, blocks = self.pipeline_parallel * self.pipeline_interleave, shapes["num_hidden_layers"]
        if blocks < stages:
            return (f"pipeline_parallel times pipeline_interleave is {stages}, and the model has num_hidden_layers="
                    f"{blocks}, one for a stage at least: {blocks} stages at most")
        experts = shapes.get("num_local_experts") or shapes.get("num_experts")
        if self.expert_parallel > 1 and not experts:
            return f"expert_parallel={self.expert_parallel} needs a model of experts, and this has none: leave it out"
        return _indivisible("expert_parallel", self.expert_parallel, {"experts": experts} if experts else {})

    def check_fields(self) -> None:
        above = {name: size for name, size in self.divisors.items() if size > 1}
        if self.processes % (product := prod(above.values())):
            given = " and ".join(f"{name}={size}" for name, size in above.items())
            raise ValueError(f"{given}: a multiple of {product} processes, and processes={self.processes}: set "
                             f"processes={-(-self.processes // product) * product}, or to the number of its GPUs")
        if (local := self.processes // self.nodes) % self.tensor_parallel:
            raise ValueError(f"tensor_parallel={self.tensor_parallel} does not divide the {local} processes of each of "
                             f"nodes={self.nodes}: its messages stay inside a node")
        for name in ("pipeline_interleave", "pipeline_schedule", "sequence_attention"):
            value, axis = getattr(self, name), f"{name.split('_')[0]}_parallel"
            if value != type(self).model_fields[name].default and getattr(self, axis) == 1:
                raise ValueError(f"{name}={value} needs {axis} above 1: leave it out")


def _indivisible(field: str, size: int, counts: Mapping[str, int]) -> str:
    """Say which of a model's counts `size` does not divide, and the largest below it that divides all."""
    for name, count in counts.items():
        if count % size:
            fit = max(n for n in range(1, size) if all(each % n == 0 for each in counts.values()))
            return f"{field}={size} does not divide the model's {name}={count}: the nearest that works is {field}={fit}"
    return ""
