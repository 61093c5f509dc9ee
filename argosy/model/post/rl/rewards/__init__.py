"""Rewards of answers, by name and weight: one module of this folder each."""

from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from pydantic import create_model

from argosy.core.config.explain import validated
from argosy.core.config.schema import Config
from argosy.core.errors import InputError
from argosy.core.plugins import Folder
from argosy.model.post.rl.reward import Reward, RewardConfig, Sample, Surroundings

Settings = Mapping[str, float | Mapping[str, Any]]  # by name: the weight, or the settings, of which one is weight


REWARDS: Folder[type[Reward[Any]]] = Folder("reward", Reward, __name__)


def configs(rewards: Settings, field: str = "rewards") -> dict[str, RewardConfig]:
    """Return the config of each reward, in the order of their names.

    `field`: where they are written. Raises InputError: there is no such reward, or a setting is wrong."""
    if absent := sorted(set(rewards) - set(REWARDS)):
        raise InputError(f"{field} has {absent[0]!r}: {REWARDS.unknown(absent[0])}")
    given = {name: dict(value) if isinstance(value, Mapping) else {"weight": value}
             for name, value in sorted(rewards.items())}  # fmt: skip
    valid = getattr(validated(_model(field, tuple(given)), {field: given}), field)
    return {name: getattr(valid, name) for name in given}


@cache
def _model(field: str, names: tuple[str, ...]) -> type[Config]:
    """Make a config of these rewards' configs, below `field` so that errors name the whole path."""
    fields: dict[str, Any] = {name: (REWARDS[name].config_class, ...) for name in names}
    whole: dict[str, Any] = {field: (create_model(field, __base__=Config, **fields), ...)}
    model: type[Config] = create_model("Rewards", __base__=Config, **whole)
    return model


class Rewarded(NamedTuple):
    """Rewards of samples, in their order: the weighted sums, and by name of the reward the values and the reasons."""

    totals: list[float]
    parts: dict[str, list[float]]
    reasons: dict[str, list[str]]


class WeightedRewards:
    """Several rewards and their weighted sum.

    Raises InputError or StepError where it is made: a setting is wrong, or what a reward needs is not there."""

    def __init__(self, rewards: Settings, surroundings: Surroundings) -> None:
        self.rewards = {name: REWARDS[name](config, surroundings) for name, config in configs(rewards).items()}
        self.weights = {name: reward.config.weight for name, reward in self.rewards.items()}

    def __call__(self, samples: Sequence[Sample]) -> Rewarded:
        """Return the rewards of samples."""
        scores = {name: reward(samples) for name, reward in self.rewards.items()}
        parts = {name: [score.value for score in column] for name, column in scores.items()}
        reasons = {name: [score.reason for score in column] for name, column in scores.items()}
        totals = [sum(self.weights[name] * parts[name][at] for name in parts) for at in range(len(samples))]
        return Rewarded(totals, parts, reasons)

    def problem(self, fields: Mapping[str, Any]) -> str:
        """Say why answers to a prompt with these fields cannot be judged; "" where they can."""
        rewards = self.rewards.values()
        if all(reward.checks and reward.reference(fields) is None for reward in rewards):
            return f"has nothing that its rewards check: {', '.join(sorted({reward.checks for reward in rewards}))}"
        return next(filter(None, (reward.problem(fields) for reward in rewards)), "")


def check_model(rewards: Settings, reward_model: str) -> None:
    """Refuse weights that ask for a reward model when none is named. Raises InputError, which names the field."""
    if "model" in rewards and not (reward_model and Path(reward_model).is_dir()):
        raise InputError(
            f"reward_model={reward_model!r} is not the directory of a reward_model step, but rewards has 'model'; name "
            "it, or leave 'model' out"
        )
