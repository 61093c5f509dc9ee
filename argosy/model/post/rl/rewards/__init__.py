"""Rewards of answers, by name and weight: their base class with its config, the scan that finds them, and their sum.

A new reward is one new file of this folder: docs/posttraining.md has one."""

from abc import ABC
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, ClassVar, Generic, Literal, NamedTuple, TypeVar

from pydantic import create_model

from argosy.core.config.explain import validated
from argosy.core.config.schema import Config
from argosy.core.errors import InputError
from argosy.core.plugins import Folder, config_of
from argosy.core.step.contract import Planned
from argosy.corpus.data.schemas import Message
from argosy.corpus.data.sources import channel_of


@dataclass(frozen=True)
class Prompt:
    """A prompt as messages and as token ids, with the other fields of its record, which rewards check answers by."""

    messages: Sequence[Message]
    ids: list[int]
    fields: Mapping[str, Any] = field(default_factory=dict)

    @property
    def channel(self) -> str:
        return channel_of(self.fields)


@dataclass(frozen=True)
class Sample:
    """An answer to be rewarded.

    Attributes:
        answer_ids: its tokens, with the stop token if it ended by itself.
        text: the same without special tokens, stripped.
        ended: whether it stopped by itself instead of reaching the limit."""

    prompt: Prompt
    answer_ids: Sequence[int]
    text: str
    ended: bool


class Score(NamedTuple):
    """A reward's value of an answer, and the reason in a few words, for people."""

    value: float
    reason: str = ""


class RewardConfig(Config):
    """Base of a reward's settings."""

    weight: float = 1.0
    """Weight in the sum of the rewards."""
    absent: Literal["refuse", "zero"] = "refuse"
    """Treatment of a prompt without the field that the reward checks: it is set aside, or its answers get 0."""


@dataclass(frozen=True)
class Surroundings:
    """Inputs of rewards from the step: the directory of a reward_model step, or "", the device of its model, the
    standard deviations of its heads by which it is cautious, and the directory of a classifier, or ""."""

    reward_model: str = ""
    device: Any = "cpu"
    caution: float = 0.0
    classifier: str = ""


C = TypeVar("C", bound=RewardConfig)


class Reward(ABC, Generic[C]):
    """A reward of answers. A subclass defines `score`, or `scores` where it judges many at a time.

    Attributes:
        name: that of its module.
        checks: the prompt's field that it checks answers by, or "". A setting of this name stands in for the field of
            a prompt without it."""

    name: ClassVar[str] = ""
    checks: ClassVar[str] = ""
    config_class: ClassVar[type[RewardConfig]]

    def __init__(self, config: C, surroundings: Surroundings) -> None:
        self.config, self.surroundings = config, surroundings

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        cls.config_class = config_of(cls) or cls.config_class
        cls.name = cls.__module__.rpartition(".")[2]

    def reference(self, fields: Mapping[str, Any]) -> Any:
        """Return what answers to a prompt with these fields are checked by; None: there is nothing."""
        setting = getattr(self.config, self.checks) if self.checks in type(self.config).model_fields else None
        return fields.get(self.checks) or setting or None

    def problem(self, fields: Mapping[str, Any]) -> str:
        """Say why answers to a prompt with these fields cannot be judged; "" where they can."""
        if not self.checks:
            return ""
        reference = self.reference(fields)
        if reference is None:
            kept = self.config.absent == "zero"
            return "" if kept else f"{self.checks} is missing, which the reward {self.name} checks"
        wrong = self.refusal(reference)
        return f"{self.checks}, which the reward {self.name} checks: {wrong}" if wrong else ""

    def refusal(self, reference: Any) -> str:
        """Say what is wrong with a reference; "" where nothing is."""
        return ""

    def __call__(self, samples: Sequence[Sample]) -> list[Score]:
        found = [self.reference(sample.prompt.fields) if self.checks else "" for sample in samples]
        judged = [at for at, reference in enumerate(found) if reference is not None]
        scores = [Score(0.0, f"the prompt has no {self.checks}") for _ in samples]
        for at, score in zip(judged, self.scores([samples[at] for at in judged], [found[at] for at in judged]),
                             strict=True):  # fmt: skip
            scores[at] = score
        return scores

    def scores(self, samples: Sequence[Sample], references: Sequence[Any]) -> Sequence[Score]:
        """Return the scores of answers whose prompts have these references."""
        return [self.score(sample, reference) for sample, reference in zip(samples, references, strict=True)]

    def score(self, sample: Sample, reference: Any) -> Score:
        """Return the score of an answer, whose prompt has this reference."""
        raise NotImplementedError(f"the reward {self.name} defines neither score nor scores")


def shown(text: str, longest: int = 60) -> str:
    """Write a piece of an answer for a reason: on one line, shortened, without control characters."""
    line = "".join(each if each.isprintable() else " " for each in text)
    line = " ".join(line.split())
    return line if len(line) <= longest else line[: longest - 3] + "..."


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
    return create_model("Rewards", __base__=Config, **whole)


class Rewarded(NamedTuple):
    """Rewards of samples, in their order: the weighted sums, and by name of the reward the values and the reasons."""

    totals: list[float]
    parts: dict[str, list[float]]
    reasons: dict[str, list[str]]


class WeightedRewards:
    """Several rewards and their weighted sum. Raises InputError or StepError where it is made: a setting is wrong, or
    what a reward needs is not there."""

    def __init__(self, rewards: Settings, surroundings: Surroundings) -> None:
        self.rewards = {name: REWARDS[name](config, surroundings) for name, config in configs(rewards).items()}
        self.weights = {name: reward.config.weight for name, reward in self.rewards.items()}

    def __call__(self, samples: Sequence[Sample]) -> Rewarded:
        scores = {name: reward(samples) for name, reward in self.rewards.items()}
        parts = {name: [score.value for score in column] for name, column in scores.items()}
        reasons = {name: [score.reason for score in column] for name, column in scores.items()}
        totals = [sum(self.weights[name] * parts[name][at] for name in parts) for at in range(len(samples))]
        return Rewarded(totals, parts, reasons)

    def problem(self, fields: Mapping[str, Any]) -> str:
        rewards = self.rewards.values()
        if all(reward.checks and reward.reference(fields) is None for reward in rewards):
            return f"has nothing that its rewards check: {', '.join(sorted({reward.checks for reward in rewards}))}"
        return next(filter(None, (reward.problem(fields) for reward in rewards)), "")


def check_classifiers(parts: Sequence[Planned], nodes: Sequence[Planned]) -> None:
    """Check the classifiers that steps have as a reward. Raises InputError: there is none, or none with the label."""
    for node in parts:
        each = node.config.rewards, getattr(getattr(node.config, "guards", None), "true_reward", {})
        for given in (rewards["classifier"] for rewards in each if "classifier" in rewards):
            try:
                WeightedRewards({"classifier": given}, Surroundings(classifier=node.config.classifier))
            except InputError as error:
                raise InputError(f"{node.place}.{error}") from None


def check_model(rewards: Settings, reward_model: str) -> None:
    """Refuse weights that ask for a reward model when none is named. Raises InputError, which names the field."""
    if "model" in rewards and not (reward_model and Path(reward_model).is_dir()):
        raise InputError(
            f"reward_model={reward_model!r} is not the directory of a reward_model step, but rewards has 'model'; name "
            "it, or leave 'model' out")
