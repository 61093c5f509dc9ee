"""Precision and optimizer of a phase. A combination that does not work is refused with those that do."""

from typing import Annotated, Any, Literal, Self

from pydantic import Field

from argosy.core.config.schema import ADDED, Config
from argosy.core.step.machine import fast_products
from argosy.model.train.config.engine import EngineConfig


class GaLoreConfig(Config):
    """The projection of gradients."""

    rank: float = Field(0.25, gt=0, le=1)
    """Rank of the projected gradient of a matrix, over its shorter side."""
    update_gap: int = Field(200, ge=1)
    """Steps between two projectors, each of a gradient's singular vectors."""
    scale: float = Field(0.25, gt=0)
    """Factor of the matrices' updates: their learning rate is so many times `learning_rate`."""


class NumericsConfig(EngineConfig):
    """Fields of every phase that name its precision, its kernels and its optimizer."""

    optimizer: Literal["adamw", "muon", "adafactor", "adamw_8bit", "galore", "adamw_bf16"] = "adamw"
    """AdamW; Muon (Jordan et al. 2024) for the matrices with AdamW for the rest; Adafactor (Shazeer & Stern 2018), a
    mean for each row and column; AdamW whose moments have 8 bits (Dettmers et al. 2022; needs torchao); AdamW whose
    moments of matrices are of gradients of low rank (GaLore, Zhao et al. 2024); AdamW whose weights, gradients and
    moments are bfloat16."""
    rounding: Annotated[Literal["kahan", "stochastic"], ADDED] = "kahan"
    """Rounding of weights with optimizer=adamw_bf16: kahan keeps what it takes beside them, in bfloat16 too, stochastic
    rounds up or down at random (Zamirai et al. 2020)."""
    galore: Annotated[GaLoreConfig, ADDED] = GaLoreConfig()
    """Config of optimizer=galore."""
    dtype: Literal["auto", "float32", "bfloat16", "float16"] = "bfloat16"
    """Precision of matrix products; weights and optimizer are float32 either way, but adamw_bf16's.
    auto: bfloat16, or float32 on a CPU without instructions for it. float16 scales its loss (Micikevicius et al. 2018),
    on GPUs without bfloat16."""
    export_dtype: Annotated[Literal["auto", "float32", "bfloat16", "float16"], ADDED] = "auto"
    """Precision of the weights of exported checkpoints, which are rounded to it; auto: that of the checkpoint which the
    step starts from, float32 for a new model, bfloat16 with optimizer=adamw_bf16. States are not rounded."""
    tf32: Annotated[bool, ADDED] = False
    """GPUs multiply float32 matrices with 10 bits of mantissa (TensorFloat-32)."""
    fp8: Annotated[bool, ADDED] = False
    """The blocks' matrix products are in 8 bits (Micikevicius et al. 2022), on GPUs since Ada; needs torchao."""
    attention: Annotated[Literal["auto", "eager", "sdpa", "flex", "varlen"], ADDED] = "auto"
    """varlen needs the documents' ends and no mask (FlashAttention on GPUs, torch's fused attention on a CPU), flex
    (GPUs) a mask of blocks, eager and sdpa one of all pairs. auto is varlen on GPUs, and above 512 tokens on a CPU."""
    compile: Annotated[bool, ADDED] = False
    """torch.compile for the blocks (Ansel et al. 2024): faster steps after the first ones, which take minutes."""

    def check_fields(self) -> None:
        if problem := self._optimizer_problem() or self._precision_problem() or self._compile_problem():
            raise ValueError(problem)

    def _optimizer_problem(self) -> str:
        if self.optimizer == "muon" and self.zero.stage:
            return ("optimizer=muon needs whole matrices, which ZeRO cuts up: set engine=fsdp, which "
                    "shards weights all the same, or optimizer=adamw")
        if self.optimizer == "muon" and self.tensor_parallel > 1:
            return (f"optimizer=muon needs whole matrices, which tensor_parallel={self.tensor_parallel} cuts up: set "
                    "tensor_parallel=1 (engine=fsdp shards weights all the same), or optimizer=adamw")
        if self.galore != GaLoreConfig() and self.optimizer != "galore":
            return f"galore is for optimizer=galore, and this is {self.optimizer}: set that, or leave galore out"
        if self.rounding != "kahan" and self.optimizer != "adamw_bf16":
            return f"rounding is for optimizer=adamw_bf16, and this is {self.optimizer}: set that, or leave it out"
        if self.optimizer == "adamw_bf16" and self.engine.name in ("zero", "local"):
            return (f"optimizer=adamw_bf16 is for engine=torch, ddp and fsdp, and engine={self.engine.name} keeps "
                    "float32 weights: set one of these, or optimizer=adamw")
        if (what := _WHOLE.get(self.optimizer)) is None:
            return ""
        if self.tensor_parallel * self.expert_parallel > 1:
            return (f"optimizer={self.optimizer} needs whole {what}, which tensor_parallel={self.tensor_parallel} and "
                    f"expert_parallel={self.expert_parallel} cut up: set both to 1, or optimizer=adamw")
        if self.engine.name not in ("auto", "torch"):
            return (f"optimizer={self.optimizer} needs whole {what}, and engine={self.engine.name} may cut or flatten "
                    "them: set engine=torch, or optimizer=adamw")
        return ""

    def _precision_problem(self) -> str:
        if self.dtype == "float16" and self.engine.name in ("zero", "local"):
            return ("dtype=float16 scales the loss, which is done under engine=torch, ddp and fsdp alone: set one of "
                    "these, or dtype=bfloat16")
        if self.fp8 and self.dtype != "bfloat16":
            return f"fp8=true is with dtype=bfloat16, and this is {self.dtype}: set dtype=bfloat16, or fp8=false"
        if self.fp8 and self.engine.name == "zero":
            return "fp8=true is for engine=torch, ddp and fsdp: set one of these, or fp8=false"
        if self.fp8 and self.tensor_parallel > 1:
            return (f"fp8=true is for whole matrices, which tensor_parallel={self.tensor_parallel} cuts up: set "
                    "tensor_parallel=1, or fp8=false")
        if self.dtype not in ("auto", "bfloat16") and (field := self._of_bfloat16):
            return (f"{field} is with dtype=bfloat16, and this is {self.dtype}: set dtype=bfloat16, or leave "
                    f"{field.partition('=')[0]} out")
        if self.zero.param_dtype == "bfloat16" and (not self.zero.stage or self.zero.nvme_path):
            what = f"nvme_path={self.zero.nvme_path}" if self.zero.nvme_path else "stage=0"
            return ("engine.param_dtype=bfloat16 of zero is for stage=1, 2 and 3 without nvme_path, and this has "
                    f"{what}: change that, or leave param_dtype out")
        for name, value, instead in (("dtype", "float16", "bfloat16"), ("fp8", True, "false")):
            if self.pipeline_parallel > 1 and getattr(self, name) == value:
                return (f"{name}={value} is not for pipeline_parallel={self.pipeline_parallel}, whose last stage alone "
                        f"has the loss: set {name}={instead}, or pipeline_parallel=1")
        return ""

    def _compile_problem(self) -> str:
        if not self.compile:
            return ""
        if self.recompute == "selective":
            return ("compile=true and recompute=selective exclude each other, since a compiled block shows no single "
                    "operations: set recompute=full or none, or compile=false")
        if self.pipeline_schedule == "zero_bubble":
            return ("compile=true and pipeline_schedule=zero_bubble exclude each other, since the backward of a "
                    "compiled block is one operation, which would run twice, for its input's gradient and for its "
                    "weights': set pipeline_schedule=1f1b, or compile=false")
        return ""

    @property
    def _of_bfloat16(self) -> str:
        """The field by which weights come as bfloat16 into the products; "" where they do not."""
        gathered = "engine.param_dtype=bfloat16" if self.param_dtype == "bfloat16" else ""
        return "optimizer=adamw_bf16" if self.weights_dtype == "bfloat16" else gathered

    @property
    def gathers_8_bits(self) -> bool:
        """Whether the blocks' matrices are gathered as fp8=true takes them."""
        return self.fp8 and self.engine.name == "fsdp" and self.processes > 1

    @property
    def weights_dtype(self) -> str:
        """Precision of the weights that the optimizer updates."""
        return "bfloat16" if self.optimizer == "adamw_bf16" else "float32"

    def exported_dtype(self, own: str) -> str:
        """Settle export_dtype=auto of a step that starts from weights of precision `own`."""
        found = own if self.weights_dtype == "float32" else self.weights_dtype
        return found if self.export_dtype == "auto" else self.export_dtype

    def settled(self, *, gpu: bool) -> Self:
        """Settle dtype=auto: what weights are gathered in, or what the machine is fast in."""
        found = "bfloat16" if self._of_bfloat16 else fast_products(gpu=gpu)
        return self.model_copy(update={"dtype": found}) if self.dtype == "auto" else self

    def moments(self) -> dict[str, Any]:
        """Return the fields that decide which moments the optimizer has, and their shapes, with their values."""
        more: dict[str, dict[str, Any]] = {
            "galore": {"galore.rank": self.galore.rank}, "adamw_bf16": {"rounding": self.rounding}}
        return {"optimizer": self.optimizer, **more.get(self.optimizer, {})}

    def cpu_problem(self) -> str:
        """Say which field a CPU cannot compute, and what can; "" where it can compute all."""
        if self.zero.quantized_communication:
            return "engine.quantized_communication=true needs GPUs, and this phase has none: leave it out"
        for name, wrong, instead, why in _OF_GPUS:
            if getattr(self, name) == wrong:
                return f"{name}={str(wrong).lower()} {why}, and this phase has none: set {name}={instead}"
        return ""


_WHOLE = {"adafactor": "rows and columns", "adamw_8bit": "blocks of 256 numbers", "galore": "matrices"}
_OF_GPUS: tuple[tuple[str, Any, str, str], ...] = (
    ("dtype", "float16", "bfloat16, or float32", "scales its loss for the GPUs that have no bfloat16"),
    ("tf32", True, "false", "needs a GPU of compute capability 8.0 or more"),
    ("fp8", True, "false", "needs a GPU of compute capability 8.9 or more"),
    ("attention", "flex", "varlen, which needs no mask either, or auto", "has a backward on GPUs alone"))
