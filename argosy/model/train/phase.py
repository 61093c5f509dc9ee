"""One phase of training, from its config to its outputs: model, data, engine, loop."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from argosy.core.config.explain import likely
from argosy.core.errors import InputError
from argosy.core.step.contract import StepContext
from argosy.core.store.files import write_json
from argosy.core.store.step_files import given_directory
from argosy.corpus.data.split import derive_seed
from argosy.corpus.tokens import epochs
from argosy.corpus.tokens.amounts import check_batch
from argosy.corpus.tokens.mixture import Mixture
from argosy.corpus.tokens.reader import read_channels, read_index
from argosy.model.train.config import ContinueConfig, TrainConfig, TrainOutputs
from argosy.model.train.config.adapt import AdaptConfig
from argosy.model.train.config.model import ModelConfig
from argosy.model.train.engines import make_engine
from argosy.model.train.engines.fitting import explained
from argosy.model.train.heldout import HeldoutLoss
from argosy.model.train.layers.distil import Teacher
from argosy.model.train.loop import Loop
from argosy.model.train.parallelism import join_group
from argosy.model.train.precision import quantization
from argosy.model.train.sizing.architecture import MIXTURES
from argosy.model.train.state import carry_optimizer, keep_optimizer
from argosy.model.train.updates import Sampled
from argosy.model.weights.adapters.layers import add_adapters
from argosy.model.weights.adapters.places import freeze
from argosy.model.weights.checkpoint import open_final
from argosy.model.weights.export import Exporter
from argosy.model.weights.load import load_model
from argosy.model.weights.pretrained import load_tokenizer, random_model, weights_dtype
from argosy.model.weights.unfilled import like, unfilled, unfilled_random


def train_phase(config: TrainConfig, context: StepContext, stage: str, model: Any, tokenizer: Any,
                tokens_before: int = 0, measure: Callable[[str, Any], None] | None = None) -> TrainOutputs:
    """Train `model`, on the step's device, in each of the step's processes.

    `measure`: called with `before` and `after` training, and the engine's module, in each process.

    Raises InputError: the data, the mixture, the tokenizer and the model do not fit together; StepError: the loss is
    not a number any more."""
    _check_model(config, model.config)
    model = adapt(config, model, getattr(config, "checkpoint", ""))
    mixture, heldout = _data(config, context, stage)
    exporter = Exporter(context, stage, tokenizer, tokens_before, dtype=_export_dtype(config),
                        trained=config.weights_dtype)
    group = join_group(context)
    weights = loss_weights(config, mixture.names)
    with explained(config, model, group):
        engine = make_engine(model, len(mixture.names), config, group)
        if config.loss_weights:
            engine.weigh(weights)
        if config.teacher:
            engine.module.teacher = Teacher(config, engine.module, tokenizer)
        if isinstance(config, ContinueConfig) and config.carry_optimizer:
            carry_optimizer(config, engine)
        updates = Sampled(config, context, engine, mixture, heldout, exporter)
        if measure:
            measure("before", engine.module)
        Loop(config, context, engine, updates).run()
        if measure:
            measure("after", engine.module)
    if config.keep_optimizer:
        keep_optimizer(config, engine, context.out)
    exports = [exporter.describe(name, step, step * config.tokens_per_step)
               for name, step in config.export_steps().items()]
    final = exporter.path(updates.best())
    return TrainOutputs(exports=exports, final=final, heldout=updates.results["after"], heldout_before=updates.results[
        "before"], epochs=mixture.epochs(config.steps * config.global_batch_size))


def _export_dtype(config: TrainConfig) -> str:
    before = getattr(config, "checkpoint", "")
    return config.exported_dtype(weights_dtype(open_final("checkpoint", before).path) if before else "float32")


def loss_weights(config: TrainConfig, channels: tuple[str, ...]) -> list[float]:
    """List the weights of the channels in the loss. Raises InputError: a name is no channel's."""
    for name in config.loss_weights:
        if name not in channels:
            raise InputError(f"loss_weights.{name}: no channel of the data has this name; {likely(name, channels)}")
    return [config.loss_weights.get(name, 1.0) for name in channels]


def _check_model(config: TrainConfig, model: Any) -> None:
    """Check that the model of config `model` can be trained on these data, with these losses and at this length."""
    check_vocabulary(config.tokenized, model.vocab_size)
    experts = getattr(model, "num_local_experts", 0) or getattr(model, "num_experts", 0)
    if experts and model.model_type not in MIXTURES:
        raise InputError(f"the model ({model.model_type}) routes tokens to {experts} experts in a way that the losses "
                         f"here do not know: choose {' or '.join(MIXTURES)}, or a dense model")
    longest = model.max_position_embeddings
    if config.sequence_length > longest:
        raise InputError(f"sequence_length={config.sequence_length} exceeds the model's max_position_embeddings="
                         f"{longest}: lower the one or raise the other")


def _data(config: TrainConfig, context: StepContext, stage: str) -> tuple[Mixture, HeldoutLoss]:
    """Open what a phase trains on and what it is evaluated on; tell how often it will see each channel."""
    train = read_channels(config.tokenized, "train")
    caps, samples = epochs.Caps.of(config.model_dump(), train), config.steps * config.global_batch_size
    before, note = epochs.epochs_before(getattr(config, "checkpoint", ""), config.tokenized)
    # Phases of one run have one seed: with the stage's name in it, a phase does not begin with what the last one began.
    seed = derive_seed("sampling", config.seed, stage)
    mixture = Mixture(train, config.mixture, config.sequence_length, seed)
    whole = sum(mixture.windows.values())
    check_batch("global_batch_size", config.global_batch_size, whole,
                f"samples of sequence_length={config.sequence_length} that the channels of the mixture have")
    tokens = {name: len(channel.tokens) for name, channel in train.items()}
    rows = epochs.epoch_table(tokens, mixture.weights, mixture.shares, samples, mixture.windows, caps, before)
    if context.rank == 0:
        report = epochs.as_report(rows, before, config.tokenized)
        _tell(rows, context, report, note, mixture.deviations(samples))
    if caps.beyond == "refuse":
        epochs.refuse_beyond(rows)
    scored = read_channels(config.tokenized, "heldout")
    if problem := config.final_by_problem(scored):
        raise InputError(problem)
    return mixture, HeldoutLoss(scored, config.sequence_length, config.heldout_tokens)


def _tell(rows: Sequence[epochs.ChannelEpochs], context: StepContext, report: Mapping[str, Any], *notes: str) -> None:
    """Print the epochs of the channels, log them, and write them to the report."""
    print("\n".join([epochs.in_words(rows), *filter(None, notes)]), flush=True)
    write_json(context.out / epochs.REPORT, report)
    context.tracker.artifact(context.out / epochs.REPORT)
    context.tracker.metrics({f"mixture/{name}/{row.channel}": getattr(row, name)
                             for row in rows for name in ("share", "epochs", "epochs_in_all")}, step=0)


def build_model(config: ModelConfig, vocab_size: int, special_ids: dict[str, int | None], *, whole: bool = True) -> Any:
    """Return a randomly initialised model, float32; without memory, for an engine to fill, unless `whole`.

    `special_ids`: bos_token_id, eos_token_id, pad_token_id of the tokenizer. Raises InputError: transformers has no
    causal model of this type."""
    from transformers import AutoConfig

    fields = config.shapes
    fields["rope_parameters"] = {"rope_type": "default", "rope_theta": config.rope_theta}
    fields["head_dim"] = config.hidden_size // config.num_attention_heads
    try:
        architecture = AutoConfig.for_model(fields.pop("model_type"), vocab_size=vocab_size, **fields, **special_ids)
        return random_model(architecture) if whole else unfilled_random(architecture)
    except (ValueError, KeyError) as error:
        raise InputError(f"model.model_type={config.model_type!r} is not a causal model of transformers: {error}; "
                         "try llama, qwen3 or mistral") from None


def lengthen(model: Any, max_position_embeddings: int, rope_theta: float, scaling: str = "none") -> Any:
    """Return a model of the same weights with a longer context.

    Rotations are slowed, so that far positions stay within angles that were trained: by a larger base (Xiong et al.
    2023, "Effective long-context scaling") or, with `scaling`, by the ratio of the contexts: all of them (linear; Chen
    et al. 2023, "Position interpolation"), or the slow ones (yarn; Peng et al. 2023).

    Raises InputError: the context or the base is less than the model's own, or its rotations are scaled already."""
    config = type(model.config).from_dict(model.config.to_dict())
    length, rope = config.max_position_embeddings, config.rope_parameters
    given: dict[str, tuple[float, float]] = {"sequence_length": (max_position_embeddings, length)}
    changed: dict[str, Any] = {"rope_theta": rope_theta}
    if scaling == "none":
        given["rope_theta"] = (rope_theta, rope["rope_theta"])
    elif (kind := rope.get("rope_type", "default")) != "default":
        raise InputError(f"rope_scaling={scaling}: the model's rotations are scaled already (rope_type={kind}): set "
                         "rope_scaling=none, and a larger rope_theta")
    else:
        changed = {"rope_type": scaling, "factor": max_position_embeddings / length}
        changed |= {"original_max_position_embeddings": length} if scaling == "yarn" else {}
    for name, (value, own) in given.items():
        if value < own:
            raise InputError(f"{name}={value:g} is less than the model's own {own:g}, which would shorten its context: "
                             "raise it, or leave long_context out (long_context=null)")
    config.max_position_embeddings, config.rope_parameters = max_position_embeddings, {**rope, **changed}
    return like(model, config)


def open_tokenizer(path: Path) -> Any:
    """Load the tokenizer in `path`. Raises InputError: there is none."""
    if not (path / "tokenizer.json").is_file():
        raise InputError(f"{path} holds no tokenizer.json: name the directory of a finished train_tokenizer step")
    return load_tokenizer(path)


def load_start(config: AdaptConfig, checkpoint: str, context: StepContext) -> tuple[Any, Any, int]:
    """Load the model that a phase continues, its tokenizer, and the tokens of its training.

    One of several processes loads no weights, which the engine fills, but beside adapters, which need whole layers."""
    start = open_final("checkpoint", checkpoint)
    if config.lora and config.lora.kind == "qlora":
        model = load_model(start.path, **quantization(context.device, config.dtype))
    else:
        model = (load_model if config.processes == 1 or config.lora else unfilled)(start.path)
    return model, open_tokenizer(start.path), start.tokens


def adapt(config: TrainConfig, model: Any, checkpoint: str) -> Any:
    """Give a model of the checkpoint's weights the adapters of `lora`, or freeze what `frozen` names; returns it.

    Raises InputError: there is no checkpoint, no such module, or dropout."""
    if problem := config.phase_problem(new=not checkpoint):
        raise InputError(problem)
    if config.lora:
        model = add_adapters(model, config.lora, config.seed, open_final("checkpoint", checkpoint).path)
    freeze(model, config.frozen)
    return model


def check_vocabulary(tokenized: str, vocab_size: int) -> None:
    """Check that no token of the data is outside the model's vocabulary.

    Raises InputError: one is, or `tokenized` is no tokenize step's directory."""
    given_directory("tokenized", tokenized, "tokenize")
    needed = int(read_index(tokenized)["vocab_size"])
    if needed > vocab_size:
        raise InputError(f"tokenized={tokenized} has {needed} tokens in its vocabulary and the model {vocab_size}: "
                         "tokenize with the model's own tokenizer")
