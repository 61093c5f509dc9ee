"""Anneal: the learning rate falls to zero on high-quality text and instructions.

Hu et al. 2024 (MiniCPM), OLMo 2 (2025): what a model sees while the rate falls counts most.

    python -m steps.anneal --config '{"checkpoint": DIR, "tokenized": DIR}' --out DIR
"""

from typing import Annotated, Literal

from pydantic import Field

from argosy.core.step.command import main
from argosy.core.step.contract import Step, StepContext
from argosy.core.step.process import make_deterministic
from argosy.model.train.checks import TRAINING, check_phase
from argosy.model.train.config import ContinueConfig, TrainOutputs


class AnnealConfig(ContinueConfig):
    """Config of the step; `mixture` names the high-quality channels and `instructions`."""

    schedule: Literal["cosine", "wsd", "linear", "constant"] = "linear"
    final_learning_rate: Annotated[float, Field(ge=0, le=1)] = 0.0


def run(config: AnnealConfig, context: StepContext) -> TrainOutputs:
    """Continue the checkpoint."""
    make_deterministic(config.seed, config.threads)
    from argosy.model.train.phase import load_start, train_phase

    return train_phase(config, context, "anneal", *load_start(config, config.checkpoint, context))


STEP = Step("anneal", AnnealConfig, run, version=3, needs="train", makes_model=True,
            metrics=TRAINING, check=check_phase)

if __name__ == "__main__":
    main(STEP)
