"""Pretraining: a new model learns from the tokenized mixture.

    python -m steps.pretrain --config '{"tokenized": DIR, "tokenizer": DIR, "tokens": 1000000}' --out DIR
"""

from argosy.config.schema import Upstream
from argosy.step.command import main
from argosy.step.contract import Step, StepContext
from argosy.store.step_files import given_directory
from argosy.training.config import ModelConfig, TrainConfig, TrainOutputs


class PretrainConfig(TrainConfig):
    """Config of the step."""

    tokenizer: Upstream = ""
    """Directory of the train_tokenizer step."""
    model: ModelConfig = ModelConfig()
    """The architecture."""


def run(config: PretrainConfig, context: StepContext) -> TrainOutputs:
    """Build the model and train it."""
    from argosy.step.process import make_deterministic

    make_deterministic(config.seed, config.threads)
    from argosy.training.phase import build_model, open_tokenizer, train_phase

    tokenizer = open_tokenizer(given_directory("tokenizer", config.tokenizer, "train_tokenizer") / "tokenizer")
    special = {name: getattr(tokenizer, name) for name in ("bos_token_id", "eos_token_id", "pad_token_id")}
    model = build_model(config.model, len(tokenizer), special)
    return train_phase(config, context, "pretrain", model, tokenizer)


STEP = Step("pretrain", PretrainConfig, run, version=3, needs="train")

if __name__ == "__main__":
    main(STEP)
