"""A reward: its config, what it checks of a prompt, and the value and the reason that it gives an answer.

A new reward is one new file in `argosy/model/post/rl/rewards/`: docs/rewards.md has one."""

from abc import ABC
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Generic, Literal, NamedTuple, TypeVar

from argosy.core.config.schema import Config
from argosy.corpus.data.schemas import Message


@dataclass(frozen=True)
class Prompt:
    """A prompt as messages and as token ids, with the other fields of its record, which rewards check answers by."""

    messages: Sequence[Message]
    ids: list[int]
    fields: Mapping[str, Any] = field(default_factory=dict)


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
    """Inputs of rewards from the step: the directory of a reward_model step, or "", the device of its model, and the
    standard deviations of its heads by which it is cautious."""

    reward_model: str = ""
    device: Any = "cpu"
    caution: float = 0.0


C = TypeVar("C", bound=RewardConfig)


class Reward(ABC, Generic[C]):
    """A reward of answers. A subclass defines `score`, or `scores` where it judges many at a time.

    Attributes:
        name: that of its module.
        checks: the prompt's field that it checks answers by, or "". A setting of this name stands in for the field of
            a prompt without it."""

    name: ClassVar[str] = ""
    checks: ClassVar[str] = ""
    config_class: ClassVar[type[RewardConfig]] = RewardConfig

    def __init__(self, config: C, surroundings: Surroundings) -> None:
        self.config, self.surroundings = config, surroundings

    def __init_subclass__(cls) -> None:
        """Name the reward as its module is called."""
        super().__init_subclass__()
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
        """Return the scores of answers, in their order."""
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
