"""Pretraining: a new model learns from the tokenized mixture.

    python -m steps.pretrain --config '{"tokenized": DIR, "tokenizer": DIR, "tokens": 1000000}' --out DIR
"""

from __future__ import annotations

from argosy.config import Upstream
from argosy.step import Step, StepContext
from argosy.step_files import given_directory
from argosy.training.config import ModelConfig, TrainConfig, TrainOutputs


class PretrainConfig(TrainConfig):
    """Config of the step.

    Attributes:
        tokenizer: directory of the train_tokenizer step.
        model: the architecture.
    """

    tokenizer: Upstream = ""
    model: ModelConfig = ModelConfig()


def run(config: PretrainConfig, context: StepContext) -> TrainOutputs:
    """Build the model and train it."""
    from argosy.determinism import make_deterministic

    make_deterministic(config.seed, config.threads)
    from argosy.training.model import build_model
    from argosy.training.phase import open_tokenizer, train_phase

    tokenizer = open_tokenizer(given_directory("tokenizer", config.tokenizer, "train_tokenizer") / "tokenizer")
    special = {name: getattr(tokenizer, name) for name in ("bos_token_id", "eos_token_id", "pad_token_id")}
    model = build_model(config.model, len(tokenizer), special)
    return train_phase(config, context, "pretrain", model, tokenizer)


STEP = Step("pretrain", PretrainConfig, run, version=3, needs="train")

if __name__ == "__main__":
    STEP.main()
