"""The value model: one number at each token, begun from the reward model where there is one (Ouyang et al. 2022)."""

from __future__ import annotations

from typing import Any

from argosy.posttraining.rl_config import RLHFConfig
from argosy.posttraining.source import Source, open_source


def load_value_model(config: RLHFConfig, source: Source) -> Any:
    """A token classifier with one output, float32, without dropout.

    It starts from `config.reward_model` (body and head), else from the policy's checkpoint with a head of zeros.
    """
    from transformers import AutoModelForTokenClassification

    start = open_source("reward_model", config.reward_model) if config.reward_model else source
    model = AutoModelForTokenClassification.from_pretrained(start.path, num_labels=1, dtype="float32")
    if not config.reward_model:
        model.score.weight.data.zero_()
    model.score.bias.data.zero_()
    return model.eval()  # no dropout; gradients flow all the same
