"""Config and outputs that post-training steps share, SFT's config, and the order of examples that follows from them."""

import math
import random
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, ClassVar, Literal, TypeVar

from pydantic import Field, ValidationError

from argosy.core.config.explain import likely, validated
from argosy.core.config.schema import ADDED, RUNTIME, Config, Measured, ModelDir, Rate, Seed, TokensDir, Upstream
from argosy.core.statistics.metric import Metric
from argosy.corpus.tokens.amounts import Amount, check_batch, micro_batch_problem
from argosy.model.post import HELDOUT, PREFERENCES
from argosy.model.train.config import TrainConfig, micro_batch
from argosy.model.train.config.adapt import AdaptConfig
from argosy.model.train.config.distil import DistilConfig
from argosy.model.train.config.watch import WatchConfig
from argosy.model.weights.export import Export
from argosy.model.weights.templates.published import TEMPLATES

M = TypeVar("M", bound=Config)
POOL = 16  # batches that are sorted by length together


def training_order(lengths: Sequence[int], batch_size: int, epochs: float, seed: int, max_steps: int = 0) -> list[int]:
    """Return the indices of the examples in the order of training, over all epochs: a pure function of its arguments.

    `max_steps` above 0 overrides `epochs`: as many passes, each shuffled anew, as so many batches take.

    The whole order is known before the first step, so a resumed run skips to its place and reads the same
    batches. Within pools of POOL batches of the shuffled data, examples are sorted by length, cut into batches
    and the batches shuffled: batches of near-equal lengths need little padding.

    Returns:
        max_steps * batch_size, or ceil(epochs * len(lengths)), indices. Each example comes once an epoch;
        fewer than `batch_size` of them, those that fill no batch, come at the beginning of the next one."""
    order: list[int] = []
    waiting: list[int] = []
    total = max_steps * batch_size or math.ceil(epochs * len(lengths))
    for epoch in range(math.ceil(total / len(lengths)) if lengths else 0):
        generator = random.Random(f"{seed}/{epoch}")
        stream = waiting + generator.sample(range(len(lengths)), len(lengths))
        full = len(stream) - len(stream) % batch_size
        stream, waiting = stream[:full], stream[full:]
        for start in range(0, full, POOL * batch_size):
            pool = sorted(stream[start : start + POOL * batch_size], key=lambda index: lengths[index])
            batches = [pool[at : at + batch_size] for at in range(0, len(pool), batch_size)]
            generator.shuffle(batches)
            order.extend(index for batch in batches for index in batch)
    return (order + waiting)[:total]


def check_method(config: Any, methods: Mapping[str, type[Config]]) -> None:
    """Check that a config's `method` is there, and that none of its fields is another method's. Raises ValueError."""
    if config.method not in methods:
        raise ValueError(f"method={config.method!r} is not there; {likely(config.method, methods)}")
    own, fields = methods[config.method].model_fields, type(config).model_fields
    for name in (name for each in config.joined_from for name in each.model_fields):
        if name not in own and getattr(config, name) != fields[name].default:
            reads = f", which reads {', '.join(sorted(own))}" if own else ""
            raise ValueError(f"{name}={getattr(config, name)} is not of method={config.method}{reads}: leave it out")


def make_method(config: Any, methods: Mapping[str, type[M]]) -> M:
    """Make the method of a step's `config`, with its fields. Raises InputError: they do not fit."""
    method = methods[config.method]
    return validated(method, {name: getattr(config, name) for name in method.model_fields})


PositiveInt = Annotated[int, Field(gt=0)]


class PosttrainingConfig(AdaptConfig):
    """Data, optimizer and bookkeeping of a post-training step; engine and precision as in the phases of training."""

    rows_of_one_length: ClassVar[bool] = False
    """Whether a sample can be shared out over processes."""

    stage: str = ""
    """Name of the checkpoint in results."""
    checkpoint: ModelDir = ""
    """Directory of the training step that this one continues; its `final` export is loaded."""
    data: Upstream = ""
    """Directory of the data step."""
    seed: Seed = 0
    """Seed of the examples' order and of all that is sampled."""
    template: Annotated[str, ADDED] = ""
    """Chat template that takes the place of the tokenizer's, in which the checkpoint then answers: chatml, qwen,
    llama3, mistral, zephyr or gemma; "" keeps the tokenizer's."""
    epochs: float = Field(default=1.0, gt=0)
    """Passes over the data."""
    max_steps: int = Field(default=0, ge=0)
    """Optimizer steps, in as many passes as they take; 0 leaves the number to `epochs`."""
    batch_size: PositiveInt = 32
    """Examples (conversations, pairs) of an optimizer step, over all processes."""
    micro_batch_size: PositiveInt = 32
    """Examples of one forward and backward of a process, at most; `batch_size` is a multiple."""
    max_length: int = Field(default=0, ge=0)
    """Tokens of the longest example; 0 means the checkpoint's context."""
    learning_rate: Rate = 1e-3
    """Highest learning rate."""
    schedule: Literal["cosine", "wsd", "linear", "constant"] = "cosine"
    """Course of the learning rate after the warm-up; wsd holds, then falls linearly over its last `decay_fraction`."""
    decay_fraction: Annotated[float, Field(gt=0, le=1), ADDED] = 0.2
    """Last part of what follows the warm-up, over which wsd falls."""
    final_learning_rate: Annotated[float, Field(ge=0, le=1), ADDED] = 0.0
    """End of the schedule, as a share of `learning_rate`."""
    warmup_ratio: float = Field(default=0.05, ge=0, lt=1)
    """Part of the steps over which the learning rate rises from 0."""
    weight_decay: float = Field(default=0.0, ge=0)
    """Decoupled weight decay."""
    beta1: Annotated[float, Field(ge=0, lt=1), ADDED] = 0.9
    """Decay of AdamW's mean of gradients."""
    beta2: Annotated[float, Field(ge=0, lt=1), ADDED] = 0.999
    """Decay of AdamW's mean of squared gradients."""
    max_grad_norm: float = Field(default=1.0, gt=0)
    """Norm to which gradients are clipped."""
    threads: PositiveInt = 1
    """Threads of torch on a CPU, of each process; they decide the last bits of sums, whatever cores there are."""
    heldout_limit: PositiveInt = 128
    """Number of held-out records that are evaluated before and after."""
    watch: Annotated[WatchConfig, ADDED] = WatchConfig()
    """Treatment of trouble: numbers that are not finite, spikes, repeated data."""
    log_every: Annotated[PositiveInt, RUNTIME] = 5
    """Optimizer steps between two logged metrics."""

    def check_fields(self) -> None:
        if problem := micro_batch_problem(self, "batch_size"):
            raise ValueError(problem)
        _ = self.micro_batch
        if self.template not in ("", *TEMPLATES):
            raise ValueError(f"template is {self.template!r}, which is not there; {likely(self.template, TEMPLATES)}")
        divided = next((name for name, size in self.divisors.items() if size > 1), "")
        if self.engine.name == "local" and not self.rows_of_one_length:
            raise ValueError("engine=local is for phases of training and SFT: set engine=torch, ddp, fsdp or zero")
        if self.optimizer == "adamw_bf16" and not self.rows_of_one_length:
            raise ValueError("optimizer=adamw_bf16 is for phases of training and SFT: set optimizer=adamw")
        if divided and not self.rows_of_one_length:
            raise ValueError(f"{divided}={getattr(self, divided)} is not for this step, whose examples are of several "
                             f"lengths: set {divided}=1 (engine=fsdp shards the weights)")

    def amount(self, rows: int, what: str, tokens: int | None = None) -> Amount:
        """Return what training over `rows` (of an epoch, in words `what`) comes to. Raises InputError: a batch has more
        than there are."""
        check_batch("batch_size", self.batch_size, rows, what)
        return Amount(rows, self.batch_size, self.max_steps or max(1, self.whole_steps(rows)), tokens)

    def whole_steps(self, rows: int) -> int:
        """Return the steps of `epochs` passes: as many as come nearest."""
        return round(self.epochs * rows / self.batch_size)

    @property
    def micro_batch(self) -> int:
        """Return the examples of one forward and backward of a process."""
        return micro_batch("batch_size", self.batch_size, self.micro_batch_size, self.sample_groups)

    def phase(self, steps: int, samples: int, length: int) -> TrainConfig:
        """Return what an engine and the schedule of the learning rate read: a phase of `steps` optimizer steps of
        `samples` examples over all processes, of at most `length` tokens each."""
        shared = self.model_dump(include=set(TrainConfig.model_fields) - {"micro_batch_size", "final_by"})
        if self.engine.name == "auto":
            shared["engine"] = "torch"
        tokens = steps * samples * length
        micro = micro_batch("batch_size", samples, self.micro_batch_size, self.sample_groups)
        return TrainConfig(**{**shared, "tokens": tokens, "global_batch_size": samples, "micro_batch_size": micro,
                              "sequence_length": length, "warmup_tokens": int(self.warmup_ratio * tokens)})


class MeasuredConfig(PosttrainingConfig):
    """Config of a step that may export the best of several evaluations."""

    measured: ClassVar[Mapping[str, Metric]] = {}
    heldout_points: Annotated[PositiveInt, ADDED] = 1
    """Held-out evaluations during training, the last at its end."""
    final_by: Annotated[str, Field(title="heldout/METRIC[/CHANNEL]"), ADDED] = ""
    """Held-out metric, such as heldout/preference_accuracy/maths, whose best point is exported; empty: the last."""

    @property
    def final_kind(self) -> Metric | None:
        """Return the kind of `final_by`; None where the step does not measure it, or no way is better."""
        kind = self.measured.get("/".join(self.final_by.split("/")[:2]) + "*")
        return kind if kind and kind.sign else None

    def check_fields(self) -> None:
        if self.final_by and not self.final_kind:
            names = ", ".join(name.removesuffix("*") for name, kind in self.measured.items() if kind.sign)
            raise ValueError(f"final_by is {self.final_by!r}, allowed: {names}, with /CHANNEL for one of its channels")
        if self.final_by and (self.heldout_points < 2 or self.resume):
            wrong = f"resume={self.resume}" if self.resume else f"heldout_points={self.heldout_points}"
            raise ValueError(f"final_by={self.final_by} chooses among 2 or more points of one run: change {wrong}")


class PreferenceConfig(MeasuredConfig):
    """Config of a step that learns from preference pairs."""

    measured: ClassVar[Mapping[str, Metric]] = PREFERENCES
    preferences: str = "preferences.jsonl"
    """File of the data step to learn from."""
    heldout: str = "preferences_heldout.jsonl"
    """File of the data step that is evaluated before and after; "" holds out `heldout_limit` examples of those to learn
    from, a quarter at most, by their prompts."""
    loss_weights: dict[str, Rate] = Field({})
    """Weight of a channel's examples in the loss, such as {code: 0.5}; 1 where none is given."""

    def batches(self, lengths: Sequence[int]) -> list[list[int]]:
        """Return the indices of the examples of each optimizer step, `batch_size` in each: `max_steps` steps, or as
        many as come nearest to `epochs` passes, at least one. Raises InputError: the examples do not fill a batch."""
        steps = self.amount(len(lengths), "examples that there are").steps
        order = training_order(lengths, self.batch_size, self.epochs, self.seed, steps)
        return [order[at : at + self.batch_size] for at in range(0, len(order), self.batch_size)]


class SFTConfig(MeasuredConfig, DistilConfig):
    """Config of the step; `batch_size` and `micro_batch_size` count rows, which hold several conversations each."""

    rows_of_one_length: ClassVar[bool] = True
    measured: ClassVar[Mapping[str, Metric]] = HELDOUT

    stage: str = "sft"
    """Name of the checkpoint in results; a second model beside the first has its own."""
    conversations: Annotated[tuple[str, ...], Field(min_length=1)] = ("instructions.jsonl",)
    """Files of the data step to learn from; a record with `text` in place of `messages` is text of pretraining, all of
    whose tokens are learnt."""
    tokenized: TokensDir = ""
    """Directory of a tokenize step, where texts of pretraining are learnt too."""
    pretraining_share: Annotated[float, Field(ge=0, lt=1), ADDED] = 0.0
    """Share of the tokens that are texts of pretraining: training documents of `tokenized`, in an order by `seed`, as
    channels pretraining/NAME, all of whose tokens are learnt; 0 is none."""
    heldout: str = "instructions_heldout.jsonl"
    """File of the data step that is evaluated before and after."""
    max_new_tokens: PositiveInt = 48
    """Tokens of the longest answer in that evaluation."""
    batch_size: PositiveInt = 8
    """Rows of an optimizer step, over all processes; a row has `max_length` tokens of several conversations."""
    micro_batch_size: PositiveInt = 8
    """Rows of one forward and backward of a process, at most; `batch_size` is a multiple."""
    max_length: int = Field(default=0, ge=0)
    """Tokens of a row and of the longest conversation (longer ones are set aside); 0 means the checkpoint's context."""
    packing: bool = True
    """Conversations share rows, without attention from one to another; else each has a row, padded to the longest."""
    prompt_weight: Annotated[float, Field(ge=0)] = 0.0
    """Weight of a prompt's token in the loss, where one of an answer has 1: 0 learns the answers alone, 1 all alike."""
    loss_weights: dict[str, Rate] = Field({})
    """Weight of a channel's tokens in the loss, such as {code: 0.5}; 1 where none is given."""
    neftune_noise: Annotated[float, Field(ge=0)] = 0.0
    """Strength (alpha) of the noise on embeddings in training (Jain et al. 2023, "NEFTune"), such as 5; 0 is none."""
    z_loss: Annotated[float, Field(ge=0)] = 0.0
    """Weight of log(Z)^2 (Chowdhery et al. 2022), which keeps logits from drifting."""

    def whole_steps(self, rows: int) -> int:
        """Return the steps of `epochs` passes; the last one need not be full."""
        return math.ceil(self.epochs * rows / self.batch_size)

    def check_fields(self) -> None:
        try:
            self.phase(1, self.batch_size, 2 * self.sequence_parallel * self.tensor_parallel)
        except ValidationError as error:
            problem = error.errors()[0]["msg"].removeprefix("Value error, ")
            raise ValueError(problem.replace("global_batch_size", "batch_size")) from None
        if not self.packing and self.sequence_parallel * self.tensor_parallel * self.pipeline_parallel > 1:
            raise ValueError("packing=false makes batches of several lengths, and tensor_, sequence_ and "
                             "pipeline_parallel need one: set packing=true, or each to 1")


class PosttrainingOutputs(Measured):
    """Outputs of every post-training step."""

    exports: list[Export]
    final: str
    metrics: dict[str, float] = Field(default_factory=dict)
    """Held-out results as `<name>/before` and `<name>/after`."""
    rejected: dict[str, int] = Field(default_factory=dict)
    """Number of records that were set aside, by reason; they are in `rejects/`. `notes`: sentences for people."""
    notes: tuple[str, ...] = ()
