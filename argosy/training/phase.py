"""One phase of training, from its config to its outputs: data, engine, loop."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from argosy.errors import InputError
from argosy.step import StepContext
from argosy.step_files import given_directory
from argosy.tokens.mixture import Mixture
from argosy.tokens.permutation import derive_seed
from argosy.tokens.reader import read_channels, read_index
from argosy.training.config import TrainConfig, TrainOutputs
from argosy.training.engine import make_engine
from argosy.training.export import Exporter
from argosy.training.heldout import HeldoutLoss
from argosy.training.loop import Loop


def train_phase(
    config: TrainConfig, context: StepContext, stage: str, model: Any, tokenizer: Any, tokens_before: int = 0
) -> TrainOutputs:
    """Train `model` as `config` says.

    Args:
        stage: name of the step, written into the checkpoints.
        tokenizer: written into the checkpoints.
        tokens_before: tokens of the phases before.

    Raises:
        InputError: the data, the mixture, the tokenizer and the model do not fit together.
        StepError: the loss is not a number any more.
    """
    check_vocabulary(config.tokenized, model.config.vocab_size)
    longest = model.config.max_position_embeddings
    if config.sequence_length > longest:
        raise InputError(f"sequence_length={config.sequence_length} exceeds the model's max_position_embeddings="
                         f"{longest}: lower the one or raise the other")
    train = read_channels(config.tokenized, "train")
    # Phases of one run have one seed: with the stage's name in it, a phase does not begin with what the last one began.
    mixture = Mixture(train, config.mixture, config.sequence_length, derive_seed("sampling", config.seed, stage))
    scored = read_channels(config.tokenized, "heldout")
    heldout = HeldoutLoss(scored, config.sequence_length, config.heldout_tokens)
    engine = make_engine(model, len(mixture.names), config)
    exporter = Exporter(context, stage, tokenizer, tokens_before)
    results = Loop(config, context, engine, mixture, heldout, exporter).run()
    exports = [exporter.describe(name, step, step * config.tokens_per_step)
               for name, step in config.export_steps().items()]
    return TrainOutputs(
        exports=exports, final=exports[-1].path, heldout=results["after"], heldout_before=results["before"],
        epochs=mixture.epochs(config.steps * config.global_batch_size),
    )


def open_tokenizer(path: Path) -> Any:
    """The tokenizer in `path`."""
    from transformers import AutoTokenizer

    if not (path / "tokenizer.json").is_file():
        raise InputError(f"{path} holds no tokenizer.json: name the directory of a finished train_tokenizer step")
    return AutoTokenizer.from_pretrained(path)


def check_vocabulary(tokenized: str, vocab_size: int) -> None:
    """See that no token of the data is outside the model's vocabulary.

    Raises:
        InputError: it is; or `tokenized` is no tokenize step's directory.
    """
    given_directory("tokenized", tokenized, "tokenize")
    needed = int(read_index(tokenized)["vocab_size"])
    if needed > vocab_size:
        raise InputError(f"tokenized={tokenized} has {needed} tokens in its vocabulary and the model {vocab_size}: "
                         "tokenize with the model's own tokenizer")
