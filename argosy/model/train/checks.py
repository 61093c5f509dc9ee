"""A training step's kinds of metrics, and checks of its node before anything runs: lengths, devices, mixture."""

import io
import math
from collections.abc import Sequence
from contextlib import redirect_stdout
from typing import Any

from argosy.core.errors import InputError
from argosy.core.statistics.metric import BITS, Metric, share
from argosy.core.step.contract import Planned
from argosy.corpus.data.sources import RESERVED_CHANNEL, check_channels, check_mixture, rest_of
from argosy.corpus.tokens.amounts import micro_batch_problem
from argosy.model.train.config.model import ModelConfig
from argosy.model.weights.checkpoint import find_checkpoint
from argosy.model.weights.pretrained import load_tokenizer

LOSS = Metric("lower", "nats a token", BITS)
NEITHER = Metric("neither")

RUN: dict[str, Metric] = {  # how a run went, which is not how good its model is
    "time/lost_*": Metric("neither", "s"),
    "time/*": Metric("neither", "ms"),
    "perf/*": NEITHER,
    "memory/*": Metric("neither", "MiB")}
TRAINING: dict[str, Metric] = {
    "train/loss*": LOSS,
    "train/value_loss": Metric("lower"),
    "train/accuracy*": share(),
    "train/clipped": share("neither"),
    "train/margin*": Metric("higher"),
    "train/reward_chosen": Metric("higher"),
    "train/*": NEITHER,  # learning rate, tokens, norms
    **RUN}


_BY_CHANNEL = ("mixture", "loss_weights", "max_epochs", "max_epochs_in_all")


def check_phase(parts: Sequence[Planned], nodes: Sequence[Planned]) -> None:
    """Check a phase that reads a mixture of tokenized channels. Raises InputError: it could not run."""
    for node in parts:
        check_devices(node)
        check_teacher(node)
        if problem := node.config.phase_problem(new=not node.upstream.get("checkpoint")):
            raise InputError(f"{node.place}.{problem}")
        check_adapted(node)
        length, context = node.config.sequence_length, context_of(node)
        if context is not None and length > context:
            raise InputError(f"{node.place}.sequence_length={length} is more than the {context} tokens of the model's "
                             "context (max_position_embeddings): lower it, or lengthen the context before "
                             "(long_context, or pretrain.model.max_position_embeddings of a new model)")
    named = [(node, field) for node in parts for field in _BY_CHANNEL if getattr(node.config, field)]
    if not (named or any(node.config.final_by for node in parts)) or (channels := _channels(parts[0])) is None:
        return
    for node in parts:
        if problem := node.config.final_by_problem(channels):
            raise InputError(f"{node.place}.{problem}")
    for node, field in named:
        weights, where = getattr(node.config, field), f"{node.place}.{field}"
        rest = rest_of(weights, channels, where) if "max_epochs" in field else ""
        check = check_mixture if field == "mixture" else check_channels
        check({name: weight for name, weight in weights.items() if name != rest}, channels, where)


def check_tuning(parts: Sequence[Planned], nodes: Sequence[Planned]) -> None:
    """Check a step of post-training. Raises InputError: it could not run."""
    for node in parts:
        written = "micro_batch_size" in node.config.model_fields_set
        if written and (problem := micro_batch_problem(node.config, "batch_size", written=True)):
            raise InputError(f"{node.place}.{problem}")
        length, context = node.config.max_length, context_of(node)
        if context is not None and length > context:
            raise InputError(f"{node.place}.max_length={length} is more than the {context} tokens of the model's "
                             "context: lower it, or set 0 for the context")
        check_devices(node)
        check_teacher(node)
        check_adapted(node)


def check_devices(node: Planned) -> None:
    """Check that the devices of a training node compute its precision, and that it divides the model that it has."""
    problem = "" if node.gpus else node.config.cpu_problem()
    if not problem and node.config.divides:
        shapes = getattr(_base(node).config, "shapes", None)
        problem = node.config.shape_problem(shapes()) if shapes and shapes() else ""
    if problem:
        raise InputError(f"{node.place}.{problem}")


def check_teacher(node: Planned) -> None:
    """Check that the teacher of a node, if any, is a language model, and that its tokenizer has the tokens of the model
    to begin with, as far as that is there; its start may add some. Raises InputError: no."""
    if not getattr(node.config, "teacher", ""):
        return
    base = _base(node)
    place = _place(base)
    sizes = [each.config.vocab_size for each in base.upstream.get("tokenizer", ()) if not getattr(each, "finished", 0)]
    try:
        own = load_tokenizer(find_checkpoint(place).path).get_vocab() if place else {}
        node.config.find_teacher(own, max(sizes, default=math.inf))
    except InputError as error:
        raise InputError(f"{node.place}.teacher: {error}") from None


def check_adapted(node: Planned) -> None:
    """Check that the model of a node has what `lora` and `frozen` name, as far as its configuration is there.

    Raises InputError: no, or the rank is beyond a layer's."""
    config = node.config
    if not (config.lora or config.frozen) or (model := _without_weights(_base(node))) is None:
        return
    from argosy.model.weights.adapters.places import freeze, places

    try:
        with redirect_stdout(io.StringIO()):  # the stage says it
            if config.causal:  # else its head, which learns too, is not the one that is tied here
                freeze(model, config.frozen)
        if config.lora:
            places(model, config.lora if config.causal else config.lora.model_copy(update={"modules_to_save": ()}))
    except InputError as error:
        raise InputError(f"{node.place}.{error}") from None


def context_of(node: Planned) -> int | None:
    """Return the longest input in tokens of the model that a node leaves; None where it is not known yet.

    A config's `context()` says what its step sets, and `new_context()` what a model has that begins with it."""
    before = node.upstream.get("checkpoint")
    own = getattr(node.config, "context", None)
    if before and not own:
        return context_of(before[0])
    said = own or getattr(node.config, "new_context", None)
    found: int | None = said() if said else None
    return found


def _base(node: Planned) -> Planned:
    """Return the node whose model others went on with."""
    before = node.upstream.get("checkpoint")
    return _base(before[0]) if before else node


def _place(base: Planned) -> str:
    """Return where the model lies that others go on with; "" where it does not yet."""
    finished, model = getattr(base, "finished", None), getattr(base.config, "model", None)
    return finished.directory if finished else model if isinstance(model, str) else ""


def _without_weights(base: Planned) -> Any:
    """Build the model that others go on with on `meta`; None where its configuration is not here yet."""
    if place := _place(base):
        from argosy.model.weights.drawn import bare
        from argosy.model.weights.pretrained import load_config

        return bare(load_config(find_checkpoint(place).path))
    if not isinstance(getattr(base.config, "model", None), ModelConfig):
        return None
    from argosy.model.train.phase import build_model

    return build_model(base.config.model, 2**10, {}, whole=False)


def _channels(node: Planned) -> set[str] | None:
    """Return the channels that a node's token files will have; None: nobody knows them yet."""
    [tokenize] = node.upstream["tokenized"]
    [clean] = tokenize.upstream["documents"]
    [data] = clean.upstream["data"]
    of_data: set[str] | None = data.config.channels
    if of_data is None:
        return None
    return {*clean.config.channels(of_data), *((RESERVED_CHANNEL,) if "data" in tokenize.upstream else ())}
