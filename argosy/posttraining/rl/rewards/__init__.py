"""Prompts whose answers a program can check, and rewards of the answers: one module of this folder each."""

import hashlib
import importlib
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from argosy.data.schemas import Message, ParseError, turns_of
from argosy.errors import InputError
from argosy.models.chat import check_length, encode_prompt
from argosy.plugins import names


@dataclass(frozen=True)
class Prompt:
    """A prompt as messages and as token ids, with the answers that are right and their format."""

    messages: Sequence[Message]
    ids: list[int]
    accept: tuple[str, ...]
    format: str


def prompt_parser(tokenizer: Any, max_length: int) -> Callable[[dict[str, Any]], Prompt]:
    """Return a function that makes a Prompt of a JSON record, or raises ParseError with the reason.

    `max_length`: tokens of the prompt alone: the context less the longest answer."""

    def parse(record: dict[str, Any]) -> Prompt:
        (messages,) = turns_of("prompts", record, "prompt")
        if "accept" not in record:
            raise ParseError("accept is missing: the replies that the rules take for right")
        ids = encode_prompt(tokenizer, messages)
        check_length(ids, max_length)
        return Prompt(messages, ids, tuple(record["accept"]), record.get("format", "text"))

    return parse


def hold_out(prompts: Sequence[Prompt], count: int, seed: int) -> tuple[list[Prompt], list[Prompt]]:
    """Return (prompts to train on, `count` different ones to evaluate on; at most a quarter of all).

    Equal prompts stay on one side, and which side depends on the text and the seed alone. Raises InputError: there
    are fewer than two different prompts."""
    by_hash: dict[str, Prompt] = {}
    for prompt in prompts:
        by_hash.setdefault(_digest(prompt, seed), prompt)
    if len(by_hash) < 2:
        raise InputError("the prompts are all equal: at least two different ones are needed, one to be held out")
    chosen = sorted(by_hash)[: max(1, min(count, len(by_hash) // 4))]
    held = set(chosen)
    train = [prompt for prompt in prompts if _digest(prompt, seed) not in held]
    return train, [by_hash[digest] for digest in chosen]


def _digest(prompt: Prompt, seed: int) -> str:
    text = "\0".join(message["content"] for message in prompt.messages)
    return hashlib.sha256(f"{seed}\0{text}".encode()).hexdigest()


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


class Reward(Protocol):
    """Rewards of a batch of samples, in their order."""

    def __call__(self, samples: Sequence[Sample]) -> list[float]: ...


@dataclass(frozen=True)
class RewardSettings:
    """Settings that a reward may need: the directory of a reward_model step, or "", the device of its model, and by how
    many standard deviations of its heads it is cautious."""

    reward_model: str = ""
    device: Any = "cpu"
    caution: float = 0.0


def reward_names() -> list[str]:
    """List all rewards: the modules of this package."""
    return names(sys.modules[__name__])


def _load(name: str, settings: RewardSettings) -> Reward:
    """Return the function `reward` of the module, or what its `make` makes of the settings."""
    module = importlib.import_module(f"{__name__}.{name}")
    reward: Reward = module.make(settings) if hasattr(module, "make") else module.reward
    return reward


class WeightedRewards:
    """Several rewards and their weighted sum."""

    def __init__(self, weights: Mapping[str, float], settings: RewardSettings) -> None:
        self.weights = dict(sorted(weights.items()))
        self.rewards: dict[str, Reward] = {name: _load(name, settings) for name in self.weights}

    def __call__(self, samples: Sequence[Sample]) -> tuple[list[float], dict[str, list[float]]]:
        """Return (weighted sums, rewards by name), each in the order of the samples."""
        parts = {name: reward(samples) for name, reward in self.rewards.items()}
        totals = [sum(self.weights[name] * parts[name][at] for name in parts) for at in range(len(samples))]
        return totals, parts


def make_samples(
    tokenizer: Any, prompts: Sequence[Prompt], answers: Sequence[Sequence[int]], stop_ids: Sequence[int]
) -> list[Sample]:
    """Return samples of the answers (token ids) to the prompts."""
    texts = tokenizer.batch_decode([list(answer) for answer in answers], skip_special_tokens=True)
    return [
        Sample(prompt, answer, text.strip(), bool(answer) and answer[-1] in stop_ids)
        for prompt, answer, text in zip(prompts, answers, texts, strict=True)
    ]


def check_settings(weights: Mapping[str, float], settings: RewardSettings) -> None:
    """Refuse weights that ask for a reward model when none is named. Raises InputError, which names the field."""
    if "model" in weights and not (settings.reward_model and Path(settings.reward_model).is_dir()):
        raise InputError(
            f"reward_model={settings.reward_model!r} is not the directory of a reward_model step, but rewards has "
            "'model'; name it, or leave 'model' out"
        )
