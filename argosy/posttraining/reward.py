"""Rewards of answers: one module of `argosy.posttraining.rewards` each, mixed by the weights of a config."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from argosy.errors import InputError
from argosy.posttraining import rewards
from argosy.posttraining.prompts import Prompt


@dataclass(frozen=True)
class Sample:
    """An answer to be rewarded.

    Attributes:
        answer_ids: its tokens, with the stop token if it ended by itself.
        text: the same without special tokens, stripped.
        ended: whether it stopped by itself instead of reaching the limit.
    """

    prompt: Prompt
    answer_ids: Sequence[int]
    text: str
    ended: bool


class Reward(Protocol):
    """Rewards of a batch of samples, in their order."""

    def __call__(self, samples: Sequence[Sample]) -> list[float]: ...


@dataclass(frozen=True)
class RewardSettings:
    """What a reward may need: the directory of a reward_model step, or ""."""

    reward_model: str = ""


def reward_names() -> list[str]:
    """Names of all rewards: the modules of `argosy.posttraining.rewards`."""
    return sorted(info.name for info in pkgutil.iter_modules(rewards.__path__))


class WeightedRewards:
    """Several rewards and their weighted sum."""

    def __init__(self, weights: Mapping[str, float], settings: RewardSettings) -> None:
        self.weights = dict(sorted(weights.items()))
        self.rewards: dict[str, Reward] = {
            name: importlib.import_module(f"{rewards.__name__}.{name}").make(settings) for name in self.weights
        }

    def __call__(self, samples: Sequence[Sample]) -> tuple[list[float], dict[str, list[float]]]:
        """(weighted sums, rewards by name), each in the order of the samples."""
        parts = {name: reward(samples) for name, reward in self.rewards.items()}
        totals = [sum(self.weights[name] * parts[name][at] for name in parts) for at in range(len(samples))]
        return totals, parts


def make_samples(
    tokenizer: Any, prompts: Sequence[Prompt], answers: Sequence[Sequence[int]], stop_ids: Sequence[int]
) -> list[Sample]:
    """Samples of the answers (token ids) to the prompts."""
    texts = tokenizer.batch_decode([list(answer) for answer in answers], skip_special_tokens=True)
    return [
        Sample(prompt, answer, text.strip(), bool(answer) and answer[-1] in stop_ids)
        for prompt, answer, text in zip(prompts, answers, texts, strict=True)
    ]


def check_settings(weights: Mapping[str, float], settings: RewardSettings) -> None:
    """Refuse weights that ask for a reward model when none is named.

    Raises:
        InputError: names the field.
    """
    if "model" in weights and not (settings.reward_model and Path(settings.reward_model).is_dir()):
        raise InputError(
            f"reward_model={settings.reward_model!r} is not the directory of a reward_model step, but rewards has "
            "'model'; name it, or leave 'model' out"
        )
