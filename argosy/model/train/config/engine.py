"""Engines of a phase, each with its own options, and what they keep and save."""

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, field_serializer

from argosy.core.config.schema import ADDED, RUNTIME, Config
from argosy.model.train.config.mesh import MeshConfig


class EngineOptions(Config):
    """Base of an engine's options. An engine without other ones is written by its name."""

    name: str
    """Name of the engine."""

    def problem(self, mesh: MeshConfig) -> str:
        """Say what of the processes' division this engine does not compute, and what can; "" where it does all."""
        return ""


class Auto(EngineOptions):
    """`torch` on a CPU and for what DeepSpeed does not compute, else ZeRO's stage 0."""

    name: Literal["auto"] = "auto"


class Torch(EngineOptions):
    """Gradients are summed after the backward."""

    name: Literal["torch"] = "torch"


class DDP(EngineOptions):
    """Each process has all weights, and sums gradients while the backward runs."""

    name: Literal["ddp"] = "ddp"


class FSDP(EngineOptions):
    """Weights are sharded too (FSDP2)."""

    name: Literal["fsdp"] = "fsdp"
    shard_size: Annotated[int, Field(ge=0), ADDED] = 0
    """Processes that share one copy of the weights, such as those of a node; 0 is all."""
    param_dtype: Annotated[Literal["float32", "bfloat16"], ADDED] = "float32"
    """Precision in which the blocks' weights are gathered and computed with, with dtype=bfloat16: half the traffic and
    memory of what is gathered. Shards, sums of gradients and the optimizer are float32 either way."""
    reshard: Annotated[bool, ADDED] = True
    """False keeps blocks gathered from a step's first forward to its last backward (ZeRO-2), as pipelines always do."""

    def problem(self, mesh: MeshConfig) -> str:
        if self.shard_size and mesh.processes // (mesh.tensor_parallel * mesh.pipeline_parallel) % self.shard_size:
            above = {name: mesh.divisors[name] for name in ("tensor_parallel", "pipeline_parallel")}
            of = "".join(f" / ({name}={size})" for name, size in above.items() if size > 1)
            return (f"engine.shard_size={self.shard_size} does not divide processes={mesh.processes}{of}; choose a "
                    "divisor")
        if self.shard_size and mesh.expert_parallel > 1:
            return (f"engine.shard_size={self.shard_size} is not for expert_parallel={mesh.expert_parallel}, whose "
                    "experts fewer processes share: leave it out")
        return ""


class Zero(EngineOptions):
    """DeepSpeed's ZeRO."""

    name: Literal["zero"] = "zero"
    stage: Annotated[Literal[0, 1, 2, 3], ADDED] = 1
    """Parts that are sharded: 0 nothing, 1 the optimizer, 2 gradients too, 3 weights too."""
    offload: Annotated[Literal["none", "optimizer", "all"], ADDED] = "none"
    """State that is kept outside of the GPU: the optimizer's, or (stage 3) the weights as well."""
    nvme_path: Annotated[str, RUNTIME] = ""
    """Folder on a fast disk for the offloaded state (stage 3); empty: the machine's memory."""
    partition: Annotated[int, Field(ge=1), ADDED] = 1
    """Processes that share a second copy of the weights in stage 3, such as those of a node: the backward gathers
    within it (hpZ of ZeRO++, Wang et al. 2023); 1 is none."""
    quantized_communication: Annotated[bool, ADDED] = False
    """Stage 3 sends weights as 8 bits and gradients as 4 (qwZ, qgZ of ZeRO++), on GPUs."""
    param_dtype: Annotated[Literal["float32", "bfloat16"], ADDED] = "float32"
    """Precision in which stages 1 to 3 compute with weights and send them, with dtype=bfloat16. The optimizer's weights
    and the sums of gradients are float32 either way."""

    def check_fields(self) -> None:
        if self.nvme_path and self.offload == "none":
            raise ValueError("nvme_path needs offload=optimizer or all")
        if self.offload == "optimizer" and not self.nvme_path and not self.stage:
            raise ValueError("offload=optimizer needs stage=1 or more, and this is 0")
        of_third = {"offload=all": self.offload == "all", "nvme_path": self.nvme_path,
                    "partition": self.partition > 1, "quantized_communication": self.quantized_communication}
        if self.stage < 3 and (name := next((name for name, given in of_third.items() if given), "")):
            raise ValueError(f"{name} is of stage=3, and this is {self.stage}: leave it out, or set stage=3")

    def problem(self, mesh: MeshConfig) -> str:
        if mesh.divides:
            given = " and ".join(f"{name}={size}" for name, size in mesh.divisors.items() if size > 1)
            return f"{given} cannot be combined with ZeRO: set engine=fsdp or engine={{name: fsdp, reshard: false}}"
        if mesh.processes % self.partition:
            return f"engine.partition={self.partition} does not divide processes={mesh.processes}; choose a divisor"
        return ""


class Local(EngineOptions):
    """Groups of processes, such as nodes or sites, train apart and go on from one model after each round (DiLoCo,
    Douillard et al. 2023): another result than the other engines', at a fraction of their messages."""

    name: Literal["local"]
    groups: int = Field(ge=2, examples=[2])
    """Number of groups, which share each global batch; a divisor of `processes`."""
    every: Annotated[int, Field(ge=1), ADDED] = 10
    """Steps of a round."""
    after: Annotated[int, Field(ge=0), ADDED] = 0
    """Steps before the first round, in which gradients are summed over all processes (Lin et al. 2018)."""
    rate: Annotated[float, Field(gt=0), ADDED] = 0.7
    """Learning rate of the step on what the groups have learnt in a round, which has Nesterov's momentum."""
    momentum: Annotated[float, Field(ge=0, lt=1), ADDED] = 0.9
    """Momentum of that step."""

    def problem(self, mesh: MeshConfig) -> str:
        if mesh.divides:
            given = next(name for name, size in mesh.divisors.items() if size > 1)
            return f"{given}={mesh.divisors[given]} is not for engine=local, whose processes have all the model: set 1"
        if mesh.processes % self.groups:
            return (f"engine.groups={self.groups} does not divide processes={mesh.processes}: set processes to a "
                    f"multiple of {self.groups}")
        return ""


_ENGINES: Mapping[str, type[EngineOptions]] = {"auto": Auto, "torch": Torch, "ddp": DDP, "fsdp": FSDP, "zero": Zero,
                                               "local": Local}


def _named(given: Any) -> Any:
    """Return an engine that is written by its name as a mapping. Raises ValueError: there is none, or it lacks an
    option."""
    given = {"name": given} if isinstance(given, str) else given
    if not isinstance(given, Mapping):
        return given
    name = given.get("name", "")
    if name == "deepspeed":
        raise ValueError("deepspeed is called zero: write engine={name: zero, stage: 0}")
    if name not in _ENGINES:
        raise ValueError(f"there is no engine {name!r}, allowed: {', '.join(_ENGINES)}, or a mapping with its options, "
                         "such as {name: zero, stage: 2}")
    known = _ENGINES[name].model_fields
    if wrong := next((option for option in given if option not in known), ""):
        has = ", ".join(list(known)[1:]) or "none"
        raise ValueError(f"engine {name} has no option {wrong}; it has: {has}")
    if lacking := next((each for each, field in known.items() if field.is_required() and each not in given), ""):
        example = f"{{name: {name}, {lacking}: {known[lacking].examples[0]}}}"  # type: ignore[index]
        raise ValueError(f"engine {name} needs the option {lacking}, such as engine={example}")
    return given


class EngineConfig(MeshConfig):
    """Fields of every phase that say how its processes share the work."""

    engine: Annotated[Auto | Torch | DDP | FSDP | Zero | Local, Field(discriminator="name"),
                      BeforeValidator(_named)] = Auto()
    """torch sums gradients after the backward, ddp while it runs, fsdp shards the weights too (FSDP2), zero is
    DeepSpeed; all with equal arithmetic. local lets groups train apart for some steps. A name, or a mapping with its
    options, such as {name: zero, stage: 2}."""
    recompute: Annotated[Literal["none", "selective", "full"], ADDED] = "none"
    """Activations that the backward computes again to keep less: full all of a block but its input (Chen et al. 2016),
    selective all but the matrix products and the attention (Korthikanti et al. 2022)."""
    recompute_blocks: Annotated[Annotated[float, Field(gt=0, le=1)] | Literal["auto"], ADDED] = 1.0
    """Share of the blocks that `recompute` is for, spread evenly; auto: the quarters of them after which, by the
    planner's figure, the rest fits in the memory."""
    resume: Annotated[str, ADDED] = ""
    """State to go on from, `STAGE-DIGEST/state/step-N` of the same store, of a run that differs in the fields above,
    `processes`, `threads` and `micro_batch_size` alone; its digest and step count as input."""

    save_every: Annotated[Annotated[int, Field(gt=0)] | Literal["auto"], RUNTIME] = "auto"
    """Steps between two resumable states; auto: the number after which failures and saving cost the least together."""
    keep_every: Annotated[int, Field(ge=0), RUNTIME] = 0
    """Steps between two states that are kept until the step is done, to go back to; 0: the newest two alone are."""
    failure_rate: Annotated[float, Field(gt=0), RUNTIME] = 0.08
    """Failures in a month of a GPU, or on CPUs of a node, which `save_every: auto` expects; of a machine that may be
    taken away, such as a spot instance, about 30 / (days that it stays) / (its GPUs)."""
    memory_every: Annotated[int, Field(ge=0), RUNTIME] = 0
    """Steps between two states in shared memory alone, which a process that is started again on this machine goes on
    from; 0: there are those on their way to the store."""

    check_every: Annotated[int, Field(ge=0), RUNTIME] = 500
    """Steps of a training phase or of SFT between two checks for silent corruption: all processes compute the losses of
    one micro-batch twice, and compare them and the weights that several hold, as they do before each state and at the
    end; 0: none."""

    @property
    def zero(self) -> Zero:
        """Return the options of ZeRO; stage 0 for an engine that is not."""
        return self.engine if isinstance(self.engine, Zero) else Zero(stage=0)

    @property
    def param_dtype(self) -> str:
        """Return the precision in which the engine gathers weights and computes with them."""
        return getattr(self.engine, "param_dtype", "float32")

    def identity(self) -> dict[str, Any]:
        """Return the part that decides the result; `zero_stage` as in the digests of runs before it was an option."""
        engine = self.engine.identity()
        return {**super().identity(), "engine": engine if len(engine) > 1 else self.engine.name, "zero_stage": 0}

    @field_serializer("engine")
    def _short(self, engine: EngineOptions) -> str | dict[str, Any]:
        options = engine.model_dump(exclude_defaults=True)
        return {"name": engine.name, **options} if options else engine.name

    def check_fields(self) -> None:
        if problem := self.engine.problem(self):
            raise ValueError(problem)
        if self.recompute_blocks != 1 and self.recompute == "none":
            raise ValueError(f"recompute_blocks={self.recompute_blocks} is of recompute=full or selective, and this "
                             "is none: leave it out")
        if self.recompute_blocks == "auto" and self.recompute != "full":
            raise ValueError("recompute_blocks=auto asks the planner, which knows recompute=full alone: set that, or a "
                             "number")
        if self.pipeline_schedule == "zero_bubble" and self.recompute != "none":
            raise ValueError(f"recompute={self.recompute} with pipeline_schedule=zero_bubble would compute each block "
                             "twice more, for its input's gradient and for its weights': set recompute=none, or "
                             "pipeline_schedule=1f1b")
