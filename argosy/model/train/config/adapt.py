"""Fields of every phase that name what is trained: all weights, adapters beside them, or all but those that stay."""

from typing import Annotated, ClassVar

from pydantic import Field

from argosy.core.config.schema import ADDED
from argosy.model.train.config.numerics import NumericsConfig
from argosy.model.weights.adapters import LoRAConfig


class AdaptConfig(NumericsConfig):
    """Fields that leave weights of the checkpoint as they are."""

    causal: ClassVar[bool] = True
    """Whether its model has the output layer of a language model."""

    lora: Annotated[LoRAConfig | None, ADDED] = None
    """Adapters that are trained in place of the weights, such as `{kind: dora, rank: 8}`; null: the weights are."""
    frozen: Annotated[tuple[str, ...], ADDED] = Field((), examples=["[embed_tokens, layers.0]"])
    """Modules whose weights stay as they are, such as `[embed_tokens, layers.0]`, with `*` for any text; each has to
    match one."""

    def check_fields(self) -> None:
        if problem := self._adapt_problem():
            raise ValueError(problem)

    def _adapt_problem(self) -> str:
        if not (self.lora or self.frozen):
            return ""
        if self.lora and self.frozen:
            return "lora and frozen exclude each other, as lora freezes all weights: leave one of them out"
        field, off = ("lora", "lora=null") if self.lora else ("frozen", "frozen=[]")
        for name in ("tensor_parallel", "pipeline_parallel", "expert_parallel"):
            if getattr(self, name) > 1:
                return (f"{field} is for whole layers, which {name}={getattr(self, name)} divides: set {name}=1 "
                        f"(engine=fsdp shards the weights), or {off}")
        if self.lora and self.engine.name == "local":
            return ("lora and engine=local exclude each other, since the mean of groups' thin matrices is not that of "
                    "their products: set engine=ddp or fsdp, or lora=null")
        if self.zero.param_dtype == "bfloat16":
            return (f"{field} exports weights that stay as they are, and engine.param_dtype=bfloat16 of zero rounds "
                    f"them: set it to float32, or {off}")
        if self.optimizer == "adamw_bf16":
            return (f"{field} exports weights that stay as they are, and optimizer=adamw_bf16 rounds them: set "
                    f"optimizer=adamw, or {off}")
        if self.lora and self.fp8:
            return "lora and fp8=true exclude each other: set fp8=false, or lora=null"
        if self.lora and self.lora.kind == "qlora" and self.engine.name not in ("auto", "torch"):
            return (f"lora.kind=qlora has weights of 4 bits, which engine={self.engine.name} would "
                    "shard: set engine=torch, or lora.kind=lora")
        return ""

    def phase_problem(self, *, new: bool) -> str:
        """Say what a phase of training cannot do with these fields; "" where it can all. `new`: its model is."""
        if new and (self.lora or self.frozen):
            field = "lora" if self.lora else "frozen"
            return (f"{field} keeps weights as they are, and those of a new model are random: name a checkpoint to "
                    f"start from (start.model), or leave {field} out")
        if self.lora and self.lora.dropout:
            return ("lora.dropout is for post-training: a phase of training is the same over processes, and a GPU's "
                    "dropout is not; set lora.dropout=0")
        return ""

    def cpu_problem(self) -> str:
        if self.lora and self.lora.kind == "qlora":
            return ("lora.kind=qlora computes with weights of 4 bits, for which bitsandbytes has kernels on CUDA GPUs, "
                    "and this phase has none: set lora.kind=lora")
        return super().cpu_problem()
