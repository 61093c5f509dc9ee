"""Pretraining: a new model, or one to go on with, learns from the tokenized mixture.

    python -m steps.pretrain --config '{"tokenized": DIR, "tokenizer": DIR, "tokens": 1000000}' --out DIR
"""

from typing import Any

from argosy.core.config.schema import ModelDir, TokenizerDir
from argosy.core.step.command import main
from argosy.core.step.contract import Step, StepContext
from argosy.core.step.process import make_deterministic
from argosy.core.store.step_files import given_directory
from argosy.model.train.checks import TRAINING, check_phase
from argosy.model.train.config import TrainConfig, TrainOutputs
from argosy.model.train.config.model import ModelConfig


class PretrainConfig(TrainConfig):
    tokenizer: TokenizerDir = ""
    """Directory of the train_tokenizer step, for a new model."""
    checkpoint: ModelDir = ""
    """Directory of the start step whose model is trained on, tokenizer included; "" for a new model."""
    model: ModelConfig = ModelConfig()
    """The architecture of a new model."""

    def new_context(self) -> int:
        """Return the context of a new model in tokens."""
        return self.model.max_position_embeddings

    def shapes(self) -> dict[str, Any]:
        """Return the fields of a new model's config.json."""
        return self.model.shapes


def run(config: PretrainConfig, context: StepContext) -> TrainOutputs:
    """Build the model, or load it, and train it."""
    make_deterministic(config.seed, config.threads)
    from argosy.model.train.phase import build_model, load_start, open_tokenizer, train_phase

    if config.checkpoint:
        return train_phase(config, context, "pretrain", *load_start(config, config.checkpoint, context))
    tokenizer = open_tokenizer(given_directory("tokenizer", config.tokenizer, "train_tokenizer") / "tokenizer")
    special = {name: getattr(tokenizer, name) for name in ("bos_token_id", "eos_token_id", "pad_token_id")}
    model = build_model(config.model, len(tokenizer), special, whole=config.processes == 1)
    return train_phase(config, context, "pretrain", model, tokenizer)


STEP = Step("pretrain", PretrainConfig, run, version=3, needs="train", makes_model=True,
            metrics=TRAINING, check=check_phase)

if __name__ == "__main__":
    main(STEP)
