"""Config and outputs of the phases of training; the groups of fields that all of them share are the modules here."""

import math
from collections.abc import Collection
from typing import Annotated, Literal

from pydantic import Field

from argosy.core.config.schema import ADDED, RUNTIME, Config, Measured, ModelDir, Rate, Seed, TokensDir, Weight
from argosy.corpus.tokens.amounts import micro_batch_problem
from argosy.corpus.tokens.epochs import Beyond, EpochCaps
from argosy.model.train.config.adapt import AdaptConfig
from argosy.model.train.config.distil import DistilConfig
from argosy.model.train.config.watch import WatchConfig
from argosy.model.weights.export import Export

PositiveInt = Annotated[int, Field(gt=0)]
Fraction = Annotated[float, Field(gt=0, le=1)]


def micro_batch(name: str, size: int, micro: int, processes: int) -> int:
    """Return the samples of one forward and backward: `micro`, but at most a process's share of the batch; 0 is all.

    `name`: the field that holds `size`, the samples of an optimizer step over all processes. Raises ValueError: the
    processes do not divide the batch, or micro-batches do not divide a process's share."""
    share, rest = divmod(size, processes)
    if rest or not share:
        raise ValueError(f"processes={processes} does not divide {name}={size}; choose a divisor")
    micro = min(micro or share, share)
    if share % micro:
        of = f" / processes={processes}" if processes > 1 else ""
        raise ValueError(f"micro_batch_size={micro} does not divide {name}={size}{of}; choose a divisor")
    return micro


class ProfileConfig(Config):
    """The optimizer steps that torch's profiler traces."""

    steps: tuple[int, int]
    """First and last of them; a phase begins with step 1."""

    def check_fields(self) -> None:
        first, last = self.steps
        if not 1 <= first <= last:
            raise ValueError(f"steps=[{first}, {last}] must be 1 or more and rise, such as [10, 15]")


class TrainConfig(AdaptConfig, DistilConfig):
    """Config of every phase: data, length, batch, optimizer, schedule, held-out evaluation, exports."""

    tokenized: TokensDir = ""
    """Directory of the tokenize step."""
    mixture: dict[str, Weight] = Field(default_factory=dict)
    """Share of the samples by channel, relative, such as {wiki: 2, web: 8, other: 1}: 0 leaves a channel out, and
    `other` is for those without a name here, together. Empty: in proportion to the channels' tokens."""
    max_epochs: Annotated[EpochCaps, ADDED] = Field({})
    """Passes over a channel in this phase at most, such as {wiki: 4, "*": 8} (`*`: the others), or a number for all."""
    max_epochs_in_all: Annotated[EpochCaps, ADDED] = Field({})
    """The same over this phase and all before it; 4 for a channel that neither of the two names."""
    over_max_epochs: Annotated[Beyond, ADDED] = "warn"
    """Treatment of a channel beyond its cap: warn, or refuse the mixture."""
    seed: Seed = 0
    """Seed of the samples' order, the initial weights and all else that is drawn."""
    sequence_length: Annotated[int, Field(ge=2)] = 128
    """Tokens of a sample."""
    tokens: PositiveInt = 1_000_000
    """Budget of the phase, rounded up to whole steps."""
    global_batch_size: PositiveInt = 32
    """Samples of an optimizer step, over all processes."""
    micro_batch_size: Annotated[int, Field(ge=0)] | Literal["auto"] = 0
    """Samples of one forward and backward of a process, at most; 0 means all of a process's, auto the largest number
    that fits: tried on a GPU, by the planner's figure where processes wait for each other, and on a CPU."""
    learning_rate: Rate = 3e-3
    """Highest learning rate."""
    weight_decay: Annotated[float, Field(ge=0)] = 0.1
    """Decoupled weight decay of the matrices."""
    beta1: Annotated[float, Field(ge=0, lt=1)] = 0.9
    """Decay of AdamW's mean of gradients."""
    beta2: Annotated[float, Field(ge=0, lt=1)] = 0.95
    """Decay of AdamW's mean of squared gradients."""
    max_grad_norm: Annotated[float, Field(gt=0)] = 1.0
    """Norm to which gradients are clipped."""
    schedule: Literal["cosine", "wsd", "linear", "constant"] = "cosine"
    """Course of the learning rate after the warm-up; wsd holds, then falls linearly over its last `decay_fraction`."""
    warmup_tokens: Annotated[int, Field(ge=0)] = 0
    """Tokens over which the learning rate rises from 0."""
    decay_fraction: Fraction = 0.2
    """Last part of what follows the warm-up, over which wsd falls."""
    final_learning_rate: Annotated[float, Field(ge=0, le=1)] = 0.1
    """End of the schedule, as a share of `learning_rate`."""
    z_loss: Annotated[float, Field(ge=0)] = 0.0
    """Weight of log(Z)^2 (Chowdhery et al. 2022), which keeps logits from drifting."""
    loss_weights: Annotated[dict[str, Rate], ADDED] = Field({})
    """Weight of a channel's targets in the loss, such as {code: 0.5}; 1 where none is given."""
    document_mask: bool = True
    """Attention stays within a document; else within the sample."""
    threads: PositiveInt = 1
    """Threads of torch on a CPU, of each process; they decide the last bits of sums, whatever cores there are."""
    keep_optimizer: Annotated[bool, ADDED] = False
    """Keep the final optimizer state beside the checkpoints, for a phase with `carry_optimizer`; AdamW's takes 8 bytes
    a parameter."""
    exports: tuple[Fraction, ...] = (1.0,)
    """Shares of the budget at which a checkpoint is exported; the last one is always 1."""
    final_by: Annotated[str, Field(pattern=r"^(heldout/(nats|ppl|bpb)(/.+)?)?$", title="heldout/METRIC[/CHANNEL]",
                                   examples=["heldout/bpb", "heldout/bpb/wiki"]), ADDED] = ""
    """Held-out loss by which the best of `exports` is the final one, as it is logged, such as heldout/bpb/wiki, or
    heldout/bpb for the mean over channels; empty: the last one is."""
    heldout_points: PositiveInt = 4
    """Number of evenly spaced held-out evaluations, besides the one at the start."""
    heldout_tokens: PositiveInt = 20_000
    """Tokens of whole held-out documents that are evaluated, of each channel."""
    watch: Annotated[WatchConfig, ADDED] = WatchConfig()
    """Treatment of trouble: numbers that are not finite, spikes, repeated data."""
    log_every: Annotated[PositiveInt, RUNTIME] = 10
    """Steps between two logged training losses."""
    profile: Annotated[ProfileConfig | None, RUNTIME] = None
    """Steps that torch's profiler traces, such as `{steps: [10, 15]}`."""
    tensorboard: Annotated[bool, RUNTIME] = False
    """Whether what is logged is written as event files for TensorBoard too."""

    def check_fields(self) -> None:
        if problem := micro_batch_problem(self, "global_batch_size"):
            raise ValueError(problem)
        _ = self.micro_batch
        self._check_parallelism()
        if problem := self.teacher_problem(self.divisors):
            raise ValueError(problem)
        if not self.exports or self.exports[-1] != 1.0 or list(self.exports) != sorted(set(self.exports)):
            raise ValueError(f"exports={list(self.exports)} must rise and end with 1.0, such as [0.5, 1.0]")
        self._check_exports()
        if (self.lora or self.frozen) and (self.keep_optimizer or getattr(self, "carry_optimizer", False)):
            raise ValueError("keep_optimizer and carry_optimizer are for phases that train all weights, and lora or "
                             "frozen keeps some: leave one of them out")
        if self.final_by and self.keep_optimizer:
            raise ValueError("keep_optimizer=true keeps that of the last step, and final_by may choose an earlier one: "
                             "leave one of them out")
        if self.warmup_tokens >= self.tokens:
            raise ValueError(f"warmup_tokens={self.warmup_tokens} is not below tokens={self.tokens}, so that the "
                             "learning rate would never be reached: lower it")
        if self.profile and self.profile.steps[1] > self.steps:
            raise ValueError(f"profile.steps={list(self.profile.steps)} ends after the phase, which has {self.steps} "
                             "steps")

    def final_by_problem(self, channels: Collection[str]) -> str:
        """Say that `final_by` names a channel that is not among those with held-out documents; "" where it does not."""
        kind, _, named = self.final_by.removeprefix("heldout/").partition("/")
        return f"final_by is {self.final_by!r}, allowed: heldout/{kind}, or heldout/{kind}/CHANNEL of the channels " + (
            ", ".join(sorted(channels))) if named and named not in channels else ""

    def _check_parallelism(self) -> None:
        parts, stages, width = self.sequence_parallel, self.pipeline_parallel, self.tensor_parallel
        if self.sequence_length % (parts * width):
            given = " times ".join(f"{name}_parallel={size}" for name, size in
                                   (("sequence", parts), ("tensor", width)) if size > 1)
            raise ValueError(f"{given} does not divide sequence_length={self.sequence_length}, of which each process "
                             "has a part; choose a divisor")
        if parts > 1 and self.attention not in ("auto", "varlen"):
            raise ValueError(f"sequence_parallel={parts} knows whole samples by their documents' ends alone, and not "
                             f"attention={self.attention}: set attention=varlen, or auto")
        if stages > 1 and self.micro_batch_size == "auto":
            raise ValueError(f"micro_batch_size=auto is not for pipeline_parallel={stages}, whose schedule counts "
                             "them: give a number (argosy size proposes one)")
        if stages > 1 and self.micro_batches % stages:
            share = self.global_batch_size // self.sample_groups
            fit = [size for size in range(1, share + 1) if share % size == 0 and share // size % stages == 0]
            advice = f"set micro_batch_size={fit[-1]}" if fit else (
                f"set global_batch_size to a multiple of {self.sample_groups * stages}")
            raise ValueError(f"pipeline_parallel={stages} needs a multiple of {stages} micro-batches a step, and "
                             f"micro_batch_size={self.micro_batch} gives {self.micro_batches}: {advice}")

    def _check_exports(self) -> None:
        named: dict[object, float] = {}
        for fraction in self.exports:
            step = max(1, round(fraction * self.steps))
            for same, what in ((export_name(fraction), "name"), (step, "step")):
                if same in named:
                    raise ValueError(f"exports={named[same]} and {fraction} have the same {what}, {same}: leave one "
                                     f"out, or give the phase more than tokens={self.tokens} ({self.steps} steps)")
                named[same] = fraction

    @property
    def micro_batch(self) -> int:
        """Return the samples of one forward and backward of a process."""
        size = 0 if self.micro_batch_size == "auto" else self.micro_batch_size
        return micro_batch("global_batch_size", self.global_batch_size, size, self.sample_groups)

    @property
    def micro_batches(self) -> int:
        """Return the forwards and backwards of an optimizer step of a process."""
        return self.global_batch_size // (self.sample_groups * self.micro_batch)

    @property
    def tokens_per_step(self) -> int:
        return self.global_batch_size * self.sequence_length

    @property
    def steps(self) -> int:
        return math.ceil(self.tokens / self.tokens_per_step)

    def export_steps(self) -> dict[str, int]:
        """Return the checkpoints' names with the step after which each is exported."""
        return {export_name(fraction): max(1, round(fraction * self.steps)) for fraction in self.exports}

    def heldout_steps(self) -> set[int]:
        """Return the steps after which held-out data are evaluated; the last is one of them."""
        points = self.heldout_points
        compared = self.export_steps().values() if self.final_by else ()
        return {*compared, *(max(1, round(self.steps * n / points)) for n in range(1, points + 1))}


class ContinueConfig(TrainConfig):
    """Config of a phase that continues a checkpoint."""

    checkpoint: ModelDir = ""
    """Directory of the training step whose `final` export is continued, tokenizer included."""
    carry_optimizer: Annotated[bool, ADDED] = False
    """The optimizer goes on with the moments of the phase before, which has `keep_optimizer`; else it begins anew."""


class ChannelLoss(Measured):
    """Held-out loss of a channel."""

    nats: float
    """Mean of a token."""
    ppl: float
    """exp(nats)."""
    bpb: float
    """Bits per UTF-8 byte of the documents."""


class TrainOutputs(Measured):
    """Outputs of a phase."""

    exports: list[Export]
    final: str
    heldout: dict[str, ChannelLoss]
    """Loss of the final export, by channel."""
    heldout_before: dict[str, ChannelLoss]
    """Loss at the start."""
    epochs: dict[str, float]
    """Passes over each channel."""


def export_name(fraction: float) -> str:
    """Return the name of the checkpoint at this share of the budget: 0.25 -> `p025`; `p100` is the final one."""
    percent = fraction * 100
    return f"p{round(percent):03d}" if abs(percent - round(percent)) < 1e-6 else f"p{percent:07.3f}".replace(".", "_")
