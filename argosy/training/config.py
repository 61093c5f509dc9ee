"""What the phases of training are configured by, and what they leave behind."""

from __future__ import annotations

import math
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from argosy.config import RUNTIME, Config, Rate, Seed, Upstream

PositiveInt = Annotated[int, Field(gt=0)]
Fraction = Annotated[float, Field(gt=0, le=1)]


class TrainConfig(Config):
    """What every phase has: data, length, batch, optimizer, schedule, held-out evaluation, exports.

    Attributes:
        tokenized: directory of the tokenize step.
        mixture: share of the samples by channel, relative; empty means in proportion to the channels' tokens.
        sequence_length: tokens of a sample.
        tokens: budget of the phase, rounded up to whole steps.
        global_batch_size: samples of an optimizer step, over all processes.
        micro_batch_size: samples of one forward and backward of a process; 0 means all of a process's.
        optimizer: adamw, or muon (Jordan et al. 2024) for the matrices with AdamW for the rest.
        schedule: after the warm-up; wsd holds, then falls linearly over the last `decay_fraction`.
        final_learning_rate: where the schedule ends, as a share of `learning_rate`.
        z_loss: weight of log(Z)^2 (Chowdhery et al. 2022), which keeps logits from drifting.
        document_mask: attention stays within a document; else within the sample.
        threads: of torch on a CPU, whatever cores there are: they decide the last bits of sums.
        dtype: of matrix products; weights and optimizer are float32 either way.
        engine: auto is torch for one process on a CPU and DeepSpeed otherwise; the arithmetic is the same.
        zero_stage: DeepSpeed's partitioning: 0 nothing, 1 optimizer, 2 gradients too.
        exports: shares of the budget at which a checkpoint is exported; the last one is always 1.
        heldout_points: evenly spaced held-out evaluations (one at the start besides).
        heldout_tokens: whole documents up to this many tokens are evaluated, of each channel.
        log_every: steps between two logged training losses.
        save_every: steps between two resumable states.
    """

    tokenized: Upstream = ""
    mixture: dict[str, float] = Field(default_factory=dict)
    seed: Seed = 0
    sequence_length: Annotated[int, Field(ge=2)] = 128
    tokens: PositiveInt = 1_000_000
    global_batch_size: PositiveInt = 32
    micro_batch_size: Annotated[int, Field(ge=0)] = 0
    optimizer: Literal["adamw", "muon"] = "adamw"
    learning_rate: Rate = 3e-3
    weight_decay: Annotated[float, Field(ge=0)] = 0.1
    beta1: Annotated[float, Field(ge=0, lt=1)] = 0.9
    beta2: Annotated[float, Field(ge=0, lt=1)] = 0.95
    max_grad_norm: Annotated[float, Field(gt=0)] = 1.0
    schedule: Literal["cosine", "wsd", "linear", "constant"] = "cosine"
    warmup_tokens: Annotated[int, Field(ge=0)] = 0
    decay_fraction: Fraction = 0.2
    final_learning_rate: Annotated[float, Field(ge=0, le=1)] = 0.1
    z_loss: Annotated[float, Field(ge=0)] = 0.0
    document_mask: bool = True
    threads: PositiveInt = 1
    dtype: Literal["float32", "bfloat16"] = "bfloat16"
    engine: Literal["auto", "torch", "deepspeed"] = "auto"
    zero_stage: Literal[0, 1, 2] = 0
    exports: tuple[Fraction, ...] = (1.0,)
    heldout_points: PositiveInt = 4
    heldout_tokens: PositiveInt = 20_000
    log_every: Annotated[PositiveInt, RUNTIME] = 10
    save_every: Annotated[PositiveInt, RUNTIME] = 200

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.micro_batch_size and self.global_batch_size % self.micro_batch_size:
            raise ValueError(
                f"micro_batch_size={self.micro_batch_size} does not divide global_batch_size="
                f"{self.global_batch_size}; choose a divisor, or 0"
            )
        if not self.exports or self.exports[-1] != 1.0 or list(self.exports) != sorted(set(self.exports)):
            raise ValueError(f"exports={list(self.exports)} must rise and end with 1.0, such as [0.5, 1.0]")
        self._check_exports()
        if self.optimizer == "muon" and self.zero_stage > 0:
            raise ValueError("optimizer=muon needs whole matrices: set zero_stage=0, or optimizer=adamw")
        return self

    def _check_exports(self) -> None:
        """See that no two exports have one name, or come after one step."""
        named: dict[object, float] = {}
        for fraction in self.exports:
            step = max(1, round(fraction * self.steps))
            for same, what in ((export_name(fraction), "name"), (step, "step")):
                if same in named:
                    raise ValueError(
                        f"exports={named[same]} and {fraction} have the same {what}, {same}: leave one out, or give "
                        f"the phase more than tokens={self.tokens} ({self.steps} steps)"
                    )
                named[same] = fraction

    @property
    def tokens_per_step(self) -> int:
        """Tokens of an optimizer step."""
        return self.global_batch_size * self.sequence_length

    @property
    def steps(self) -> int:
        """Optimizer steps of the phase."""
        return math.ceil(self.tokens / self.tokens_per_step)

    def export_steps(self) -> dict[str, int]:
        """The checkpoints' names, and the step after which each is exported."""
        return {export_name(fraction): max(1, round(fraction * self.steps)) for fraction in self.exports}


class ContinueConfig(TrainConfig):
    """A phase that goes on from a checkpoint.

    Attributes:
        checkpoint: directory of the training step whose `final` export is continued, tokenizer included.
    """

    checkpoint: Upstream = ""


class ModelConfig(Config):
    """A Llama-type model of transformers; the vocabulary comes from the tokenizer.

    Attributes:
        model_type: an architecture of `AutoModelForCausalLM` with these fields (llama, qwen3, mistral).
    """

    model_type: str = "llama"
    hidden_size: PositiveInt = 128
    intermediate_size: PositiveInt = 352
    num_hidden_layers: PositiveInt = 6
    num_attention_heads: PositiveInt = 4
    num_key_value_heads: PositiveInt = 4
    max_position_embeddings: PositiveInt = 128
    rope_theta: Annotated[float, Field(gt=0)] = 10_000.0
    tie_word_embeddings: bool = True
    initializer_range: Annotated[float, Field(gt=0)] = 0.02

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.hidden_size % (2 * self.num_attention_heads):
            raise ValueError(
                f"hidden_size={self.hidden_size} must be num_attention_heads={self.num_attention_heads} times an even "
                "number"
            )
        if self.num_attention_heads % self.num_key_value_heads:
            raise ValueError(
                f"num_key_value_heads={self.num_key_value_heads} does not divide num_attention_heads="
                f"{self.num_attention_heads}"
            )
        return self


class Export(Config):
    """A checkpoint that `from_pretrained` loads; `path` is relative to the step's directory."""

    name: str
    path: str
    step: int  # optimizer step of the phase
    tokens: int  # trained on since pretraining began


class ChannelLoss(Config):
    """Held-out loss of a channel."""

    nats: float  # mean of a token
    ppl: float  # exp(nats)
    bpb: float  # bits per UTF-8 byte of the documents


class TrainOutputs(Config):
    """What a phase leaves behind.

    Attributes:
        heldout: loss at the end by channel; heldout_before: at the start.
        epochs: how often each channel was seen.
    """

    exports: list[Export]
    final: str
    heldout: dict[str, ChannelLoss]
    heldout_before: dict[str, ChannelLoss]
    epochs: dict[str, float]


def export_name(fraction: float) -> str:
    """Name of the checkpoint at this share of the budget: 0.25 -> `p025`; `p100` is the final one."""
    percent = fraction * 100
    return f"p{round(percent):03d}" if abs(percent - round(percent)) < 1e-6 else f"p{percent:07.3f}".replace(".", "_")
