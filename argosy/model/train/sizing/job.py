"""A training job and its layout over GPUs: what the planner is asked about."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

from argosy.model.train.sizing.architecture import Architecture

Engine = Literal["torch", "ddp", "zero", "fsdp", "local"]
Recompute = Literal["none", "full"]
Offload = Literal["none", "optimizer", "all"]
FLOAT = 4  # bytes of weights, gradients, moments and the residual stream, which are float32
MASKED_LENGTH = 512  # up to it a CPU's attention has a mask (argosy/model/train/layers/attention.py)


@dataclass(frozen=True)
class Job:
    """A model and how it is trained, whatever it is trained on."""

    model: Architecture
    sequence_length: int
    global_batch_size: int
    """Samples of an optimizer step."""
    micro_batch_size: int = 0
    """Samples of one forward and backward, at most; 0 is all of a process's."""
    tokens: int = 0
    optimizer: str = "adamw"
    precision: Literal["autocast", "float32"] = "autocast"
    """Precision of matrix products: autocast casts their inputs to bfloat16."""
    document_mask: bool = True
    """Whether there is a mask of each pair of a sample's tokens."""
    attention: Literal["fused", "plain"] = "fused"
    """Whether the scores are kept (plain), or made anew in the backward (FlashAttention, Dao et al. 2022)."""
    galore_rank: float = 0.25
    """Rank of a gradient over a matrix's shorter side, with optimizer=galore."""
    fp8: bool = False
    """Whether the blocks' products are in 8 bits, whose memory is counted as that of bfloat16."""
    compensated: bool = True
    """Whether optimizer=adamw_bf16 keeps beside each weight what rounding takes."""

    @property
    def divisible(self) -> bool:
        """Whether ZeRO divides the optimizer's state; others, and fp8, need whole matrices, which it cuts up."""
        return self.optimizer == "adamw" and not self.fp8

    @property
    def shardable(self) -> bool:
        """Whether fsdp does, which puts Muon's matrices together."""
        return self.optimizer in ("adamw", "muon", "adamw_bf16")

    @property
    def number(self) -> int:
        """Bytes of a weight, of its gradient and of each of AdamW's moments."""
        return 2 if self.optimizer == "adamw_bf16" else FLOAT

    @property
    def casts(self) -> bool:
        """Whether each product casts its inputs."""
        return self.precision == "autocast"

    @property
    def product(self) -> int:
        """Bytes of a number that goes into a matrix product or comes out of one."""
        return 2 if self.casts else FLOAT


@dataclass(frozen=True)
class Layout:
    """The parts that a job is divided into, over all GPUs."""

    gpus: int = 1
    tensor: int = 1
    pipeline: int = 1
    expert: int = 1
    """Groups that the experts are divided into, among the data-parallel processes."""
    zero: int = 0
    """ZeRO's stage; fsdp divides as 3 does."""
    engine: Engine = "zero"
    shard: int = 0
    """Processes that share one copy of the states, such as those of a node; 0 is all that see different samples."""
    offload: Offload = "none"
    """State in the CPU's memory: the optimizer's and the gradients (Ren et al. 2021), or the weights too."""
    recompute: Recompute = "none"
    recomputed: float = 1.0
    """Share of the blocks that it is for."""
    context: int = 1
    """Processes that have a part of each sample."""
    whole_keys: bool = False
    """Whether each of them attends to keys and values of whole samples, which it holds for a block at a time."""
    gathered: int = FLOAT
    """Bytes of a weight of a block as FSDP2 gathers it, and of any as DeepSpeed computes with it."""
    reshard: bool = True
    """Whether FSDP2 gathers each block again in the backward."""
    interleave: int = 1
    """Stages of each process of a pipeline."""
    zero_bubble: bool = False
    """Whether gradients of weights are computed in the time that a stage would wait."""
    nvme: str = ""
    """Folder of what is offloaded; "" is the CPU's memory."""

    @property
    def again(self) -> float:
        """Share of the blocks that are computed twice."""
        return self.recomputed if self.recompute == "full" else 0.0

    @property
    def data(self) -> int:
        """Copies of the model that see different samples."""
        return self.gpus // (self.tensor * self.pipeline * self.context)

    @property
    def shards(self) -> int:
        """Parts that states are divided into."""
        return min(self.shard or self.data * self.context, self.data * self.context)

    def micro_batch(self, job: Job) -> int:
        """Return the samples of one forward and backward."""
        share = math.ceil(job.global_batch_size / self.data)
        return min(job.micro_batch_size or share, share)

    def accumulation(self, job: Job) -> int:
        """Return the micro-batches of an optimizer step."""
        return math.ceil(job.global_batch_size / self.data / self.micro_batch(job))

    def sent(self, job: Job) -> int:
        """Return the bytes of a weight as it is gathered."""
        return min(self.gathered, job.number)

    def waiting(self, job: Job) -> float:
        """Return the micro-batches that the first process of a pipeline holds (1F1B, Narayanan et al. 2021)."""
        most: float = self.pipeline
        if self.interleave > 1:  # of each of its stages, 1 / interleave of a micro-batch
            most = (2 * self.pipeline - 1 + (self.interleave - 1) * self.pipeline) / self.interleave
        return min(most, self.accumulation(job))


def read_job(config: Mapping[str, Any], model: Architecture, *, on_cpu: bool = False) -> Job:
    """Read the fields of a phase of training (`TrainConfig`, as a mapping). `on_cpu`: with the attention of there."""
    length, attention = config["sequence_length"], config.get("attention", "auto")
    if attention == "auto":
        attention = "sdpa" if on_cpu and length <= MASKED_LENGTH else "varlen"
    micro = 0 if config["micro_batch_size"] == "auto" else config["micro_batch_size"]
    return Job(model, length, config["global_batch_size"], micro, config["tokens"], config["optimizer"],
               "float32" if config["dtype"] == "float32" else "autocast",
               config["document_mask"] and attention in ("eager", "sdpa"), "plain" if attention == "eager" else "fused",
               config["galore"]["rank"], config["fp8"], config["rounding"] == "kahan")


def engine_of(config: Mapping[str, Any], *, on_cpu: bool) -> str:
    """Return the engine of a phase, where `auto` is torch on a CPU and for what DeepSpeed does not compute here."""
    engine: str = options_of(config)["name"]
    if engine != "auto":
        return engine
    own = config["optimizer"] != "adamw" or config["dtype"] == "float16" or config.get("fp8")
    own = own or config["micro_batch_size"] == "auto"  # its micro-batches are counted beforehand
    own = own or any(config.get(f"{axis}_parallel", 1) > 1 for axis in ("tensor", "pipeline", "sequence", "expert"))
    return "torch" if on_cpu or own else "zero"


def options_of(config: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the name and the options of a phase's engine."""
    engine = config["engine"]
    return {"name": engine} if isinstance(engine, str) else engine


def read_layout(config: Mapping[str, Any], processes: int, *, on_cpu: bool = False) -> Layout:
    """Read the layout that a phase of training has, on so many processes."""
    engine: Any = engine_of(config, on_cpu=on_cpu)
    options = options_of(config)
    zero = 3 if engine == "fsdp" else options.get("stage", 1) if options["name"] == "zero" else 0
    axes = {ours: config.get(f"{name}_parallel", 1) for ours, name in
            (("tensor", "tensor"), ("pipeline", "pipeline"), ("expert", "expert"), ("context", "sequence"))}
    share = config.get("recompute_blocks", 1.0)
    plain = Layout(processes, zero=zero, engine=engine, shard=options.get("shard_size", 0),
                   recomputed=1.0 if share == "auto" else share, offload=options.get("offload", "none"),
                   recompute="full" if config.get("recompute") == "full" else "none",
                   interleave=config.get("pipeline_interleave", 1),
                   zero_bubble=config.get("pipeline_schedule") == "zero_bubble",
                   gathered=2 if options.get("param_dtype") == "bfloat16" else FLOAT,
                   whole_keys=config.get("sequence_attention") == "gather",
                   reshard=options.get("reshard", True), nvme=options.get("nvme_path", ""))
    return replace(plain, **axes)
