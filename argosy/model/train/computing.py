"""Decides how a phase is computed: engine, sharding, offload. What cannot go together is refused with what can."""

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from argosy.core.config.schema import ADDED, RUNTIME
from argosy.model.train.parallelism.config import MeshConfig


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
    """What ZeRO keeps outside of the GPU: the optimizer, or (stage 3) the weights as well."""
    offload_to: Annotated[Literal["cpu", "nvme"], ADDED] = "cpu"
    """Where offload keeps it: the machine's memory, or files below `nvme_path` (stage 3)."""
    nvme_path: Annotated[str, RUNTIME] = ""
    """Folder on a fast disk for `offload_to: nvme`."""
    zero_partition: Annotated[int, Field(ge=1), ADDED] = 1
    """Processes that share a second copy of the weights in stage 3, such as those of a node: the backward gathers
    within it (hpZ of ZeRO++, Wang et al. 2023); 1 is none."""
    quantized_communication: Annotated[bool, ADDED] = False
    """Stage 3 sends weights as 8 bits and gradients as 4 (qwZ, qgZ of ZeRO++), on GPUs."""
    recompute: Annotated[Literal["none", "selective", "full"], ADDED] = "none"
    """What the backward computes again to keep less: full all of a block but its input (Chen et al. 2016), selective
    all but the matrix products and the attention (Korthikanti et al. 2022)."""
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
