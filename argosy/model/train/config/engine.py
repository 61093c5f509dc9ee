"""Decides how a phase is computed: processes that share a copy of the model, engine, sharding, offload. What cannot go
together is refused with what can."""

from collections.abc import Mapping
from math import prod
from typing import Annotated, Any, Literal, Self

from pydantic import Field, model_validator

from argosy.core.config.schema import ADDED, RUNTIME, ParallelConfig


class MeshConfig(ParallelConfig):
    """Fields of every phase that share a copy of the model out; the processes that are left see other samples."""

    tensor_parallel: Annotated[int, Field(ge=1), ADDED] = 1
    """Processes that share each block's heads and feed-forward width (Shoeybi et al. 2019); a divisor of both."""
    pipeline_parallel: Annotated[int, Field(ge=1), ADDED] = 1
    """Processes that have some blocks each, which micro-batches pass through in turn (1F1B)."""
    pipeline_interleave: Annotated[int, Field(ge=1), ADDED] = 1
    """Stages of each of them, which shortens the time that they wait (Narayanan et al. 2021)."""
    sequence_parallel: Annotated[int, Field(ge=1), ADDED] = 1
    """Processes that have a part of each sample (Ulysses, Jacobs et al. 2023); a divisor of `sequence_length` and of
    the heads."""
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
        if problem := _indivisible("sequence_parallel", parts, {name: size // width for name, size in heads.items()}):
            return problem + (f", as tensor_parallel={width} leaves a process so many" if width > 1 else "")
        drops = next((name for name, value in shapes.items() if name.endswith("dropout") and value), "")
        if drops and width * parts > 1:
            return (f"tensor_parallel={width} and sequence_parallel={parts} would each draw other numbers than one "
                    f"process for {drops}={shapes[drops]}: set both to 1")
        stages, blocks = self.pipeline_parallel * self.pipeline_interleave, shapes["num_hidden_layers"]
        if blocks < stages:
            return (f"pipeline_parallel times pipeline_interleave is {stages}, and the model has num_hidden_layers="
                    f"{blocks}, one for a stage at least: {blocks} stages at most")
        experts = shapes.get("num_local_experts") or shapes.get("num_experts")
        for name, what in (("pipeline_parallel", "all its blocks"), ("sequence_parallel", "whole samples")):
            if experts and getattr(self, name) > 1:
                return (f"{name}={getattr(self, name)} is not for a model of experts, whose routers' losses are of "
                        f"{what}: set {name}=1")
        if self.expert_parallel > 1 and not experts:
            return f"expert_parallel={self.expert_parallel} needs a model of experts, and this has none: leave it out"
        return _indivisible("expert_parallel", self.expert_parallel, {"experts": experts} if experts else {})

    @model_validator(mode="after")
    def _check_mesh(self) -> Self:
        above = {name: size for name, size in self.divisors.items() if size > 1}
        product = prod(above.values())
        if self.processes % product:
            given = " and ".join(f"{name}={size}" for name, size in above.items())
            raise ValueError(f"{given} need a multiple of {product} processes, and processes={self.processes}: set "
                             f"processes={-(-self.processes // product) * product}")
        if self.pipeline_interleave > 1 and self.pipeline_parallel == 1:
            raise ValueError(f"pipeline_interleave={self.pipeline_interleave} needs pipeline_parallel above 1: "
                             "leave it out")
        return self


class EngineConfig(MeshConfig):
    """Fields of every phase that say how its processes share the work."""

    engine: Literal["auto", "torch", "ddp", "fsdp", "deepspeed"] = "auto"
    """torch sums gradients after the backward, ddp while it runs, fsdp shards the weights too (FSDP2), deepspeed is
    ZeRO; all with equal arithmetic. auto is torch on a CPU, and DeepSpeed on GPUs and for ZeRO."""
    zero_stage: Literal[0, 1, 2, 3] = 0
    """Partitioning by DeepSpeed: 0 nothing, 1 the optimizer, 2 gradients too, 3 weights too."""
    shard_size: Annotated[int, Field(ge=0), ADDED] = 0
    """Processes that share one copy of the weights under fsdp, such as those of a node; 0 is all."""
    offload: Annotated[Literal["none", "optimizer", "all"], ADDED] = "none"
    """State that ZeRO keeps outside of the GPU: the optimizer's, or (stage 3) the weights as well."""
    offload_to: Annotated[Literal["cpu", "nvme"], ADDED] = "cpu"
    """Place of the offloaded state: the machine's memory, or files below `nvme_path` (stage 3)."""
    nvme_path: Annotated[str, RUNTIME] = ""
    """Folder on a fast disk for `offload_to: nvme`."""
    zero_partition: Annotated[int, Field(ge=1), ADDED] = 1
    """Processes that share a second copy of the weights in stage 3, such as those of a node: the backward gathers
    within it (hpZ of ZeRO++, Wang et al. 2023); 1 is none."""
    quantized_communication: Annotated[bool, ADDED] = False
    """Stage 3 sends weights as 8 bits and gradients as 4 (qwZ, qgZ of ZeRO++), on GPUs."""
    recompute: Annotated[Literal["none", "selective", "full"], ADDED] = "none"
    """Activations that the backward computes again to keep less: full all of a block but its input (Chen et al. 2016),
    selective all but the matrix products and the attention (Korthikanti et al. 2022)."""
    resume: Annotated[str, ADDED] = ""
    """State to go on from, `STAGE-DIGEST/state/step-N` of the same store, of a run that differs in the fields above,
    `processes`, `threads` and `micro_batch_size` alone; its digest and step count as input."""

    @model_validator(mode="after")
    def _check_engine(self) -> Self:
        for problem in (self._zero_problem(), self._shard_problem(), self._offload_problem(), self._mesh_problem()):
            if problem:
                raise ValueError(problem)
        return self

    def _zero_problem(self) -> str:
        if self.zero_stage and self.engine not in ("auto", "deepspeed"):
            return (f"zero_stage={self.zero_stage} is not for engine={self.engine}, which is not ZeRO: set "
                    "zero_stage=0, or engine=auto or deepspeed")
        if self.zero_stage < 3 and (self.zero_partition > 1 or self.quantized_communication):
            name = "zero_partition" if self.zero_partition > 1 else "quantized_communication"
            return f"{name} is of zero_stage=3, and this is {self.zero_stage}: leave it out, or set zero_stage=3"
        if self.processes % self.zero_partition:
            return f"zero_partition={self.zero_partition} does not divide processes={self.processes}; choose a divisor"
        return ""

    def _shard_problem(self) -> str:
        if self.shard_size and self.engine != "fsdp":
            return f"shard_size={self.shard_size} is of engine=fsdp, and this is {self.engine}: leave it out"
        sharers = self.processes // (self.tensor_parallel * self.pipeline_parallel)
        if self.shard_size and sharers % self.shard_size:
            of = f" / (tensor_parallel={self.tensor_parallel})" if self.tensor_parallel > 1 else ""
            return f"shard_size={self.shard_size} does not divide processes={self.processes}{of}; choose a divisor"
        return ""

    def _offload_problem(self) -> str:
        if self.offload == "none":
            return "offload_to=nvme needs offload=optimizer or all" if self.offload_to == "nvme" else ""
        least = 3 if self.offload == "all" or self.offload_to == "nvme" else 1
        if self.zero_stage < least:
            more = "" if least == 3 else " or more"
            return (f"offload={self.offload} to {self.offload_to} needs zero_stage={least}{more}, and this is "
                    f"{self.zero_stage}")
        if self.offload_to == "nvme" and not self.nvme_path:
            return "offload_to=nvme needs nvme_path, a folder on a fast disk"
        return ""

    def _mesh_problem(self) -> str:
        if not self.divides:
            return ""
        given = " and ".join(f"{name}={size}" for name, size in self.divisors.items() if size > 1)
        if self.zero_stage or self.engine == "deepspeed":
            other = "torch" if self.pipeline_parallel > 1 else "fsdp, which shards the same"
            return (f"{given} cannot be combined with ZeRO (engine={self.engine}, zero_stage={self.zero_stage}): set "
                    f"zero_stage=0 and engine={other}")
        if self.pipeline_parallel > 1 and self.engine in ("fsdp", "ddp"):
            return (f"pipeline_parallel={self.pipeline_parallel} is not for engine={self.engine}, which gathers a "
                    "stage for each micro-batch: set engine=torch, or pipeline_parallel=1")
        if self.expert_parallel > 1 and self.engine in ("fsdp", "ddp"):
            return (f"expert_parallel={self.expert_parallel} is not for engine={self.engine}, whose shards are of all "
                    "weights: set engine=torch, or expert_parallel=1")
        return ""


def _indivisible(field: str, size: int, counts: Mapping[str, int]) -> str:
    """Say which of a model's counts `size` does not divide, and the largest below it that divides all."""
    for name, count in counts.items():
        if count % size:
            fit = max(n for n in range(1, size) if all(each % n == 0 for each in counts.values()))
            return f"{field}={size} does not divide the model's {name}={count}: the nearest that works is {field}={fit}"
    return ""
