"""Reward model: learns from preference pairs which of two answers is better.

python -m steps.reward_model --config '{"checkpoint": SFT_DIR, "data": DIR}' --out DIR"""

from typing import Any, ClassVar

from pydantic import Field

from argosy.core.step.command import main
from argosy.core.step.contract import Step, StepContext
from argosy.corpus.data.split import PREFERENCES as PAIRS
from argosy.model.post import PREFERENCES
from argosy.model.post.config import PositiveInt, PosttrainingOutputs, PreferenceConfig
from argosy.model.train.checks import TRAINING, check_tuning


class RewardModelConfig(PreferenceConfig):
    causal: ClassVar[bool] = False

    stage: str = "reward_model"
    """Name of the checkpoint in results."""
    heads: PositiveInt = 1
    """Heads that vote, each drawn anew: their mean is the reward, their spread says where they do not know."""
    centering: float = Field(default=0.0, ge=0)
    """Weight of (r(chosen) + r(rejected))^2, which draws rewards to 0 (0.01 in Eisenstein et al. 2023)."""


def run(config: RewardModelConfig, context: StepContext) -> PosttrainingOutputs:
    """Train, evaluate before and after, export for AutoModelForSequenceClassification."""
    from argosy.model.post.stage import begin

    stage = begin(config, context)
    from argosy.model.post.preferences.examples import read_pairs
    from argosy.model.post.preferences.objective import reward_metrics
    from argosy.model.post.preferences.rewards import start_reward_model, train_reward_model

    pairs, heldout = read_pairs(stage)
    config.amount(len(pairs), "examples for training")  # before a model is loaded
    model = start_reward_model(stage, config.heads)

    def evaluate(model: Any) -> dict[str, float]:
        return reward_metrics(model, heldout, stage.source.pad_id, config.micro_batch)

    return stage.run(model, evaluate, lambda: train_reward_model(stage, model, pairs, config.centering, evaluate))


STEP = Step("reward_model", RewardModelConfig, run, version=6, needs="train", metrics={**TRAINING, **PREFERENCES},
            check=check_tuning, methods=("reward_model",), files={"preferences": PAIRS, "heldout": PAIRS})

if __name__ == "__main__":
    main(STEP)
