"""Prompts for reinforcement learning, whose answers a program can check."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from argosy.documents.parse import ParseError
from argosy.errors import InputError
from argosy.posttraining.chat import check_length, encode_prompt
from argosy.posttraining.config import PosttrainingConfig
from argosy.posttraining.order import training_order
from argosy.posttraining.records import Message, check_messages

FORMATS = ("text", "letter", "json")


@dataclass(frozen=True)
class Prompt:
    """A prompt as messages and as token ids, with the answers that are right and their format."""

    messages: Sequence[Message]
    ids: list[int]
    accept: tuple[str, ...]
    format: str


def prompt_parser(tokenizer: Any, max_length: int) -> Callable[[dict[str, Any]], Prompt]:
    """The function that makes a Prompt of a JSON record, or raises ParseError with the reason.

    Args:
        max_length: of the prompt alone: the context less the longest answer.
    """

    def parse(record: dict[str, Any]) -> Prompt:
        messages = check_messages(record.get("prompt"), "prompt")
        accept, form = record.get("accept"), record.get("format", "text")
        if not isinstance(accept, list) or not accept or not all(isinstance(one, str) and one for one in accept):
            raise ParseError("accept is not a list of answers")
        if form not in FORMATS:
            raise ParseError(f"format is not one of {', '.join(FORMATS)}")
        ids = encode_prompt(tokenizer, messages)
        check_length(ids, max_length)
        return Prompt(messages, ids, tuple(accept), form)

    return parse


def hold_out(prompts: Sequence[Prompt], count: int, seed: int) -> tuple[list[Prompt], list[Prompt]]:
    """(prompts to train on, `count` different ones to evaluate on; at most a quarter of all).

    Equal prompts stay on one side, and which side depends on the text and the seed alone.

    Raises:
        InputError: there are fewer than two different prompts.
    """
    by_hash: dict[str, Prompt] = {}
    for prompt in prompts:
        by_hash.setdefault(_digest(prompt, seed), prompt)
    if len(by_hash) < 2:
        raise InputError("the prompts are all equal: at least two different ones are needed, one to be held out")
    chosen = sorted(by_hash)[: max(1, min(count, len(by_hash) // 4))]
    held = set(chosen)
    train = [prompt for prompt in prompts if _digest(prompt, seed) not in held]
    return train, [by_hash[digest] for digest in chosen]


def in_order(prompts: Sequence[Prompt], config: PosttrainingConfig, per_step: int) -> list[Prompt]:
    """The prompts of all optimiser steps in order, `per_step` a step; `max_steps` overrides `epochs`.

    Each prompt comes once before one comes twice, and every step is full.
    """
    steps = config.max_steps or max(1, math.floor(config.epochs * len(prompts) / per_step))
    # Not by length: that would gather prompts of one kind in a batch, and rewards would jump from batch to batch.
    order = training_order([0] * len(prompts), per_step, config.epochs, config.seed, steps)
    return [prompts[index] for index in order]


def _digest(prompt: Prompt, seed: int) -> str:
    text = "\0".join(message["content"] for message in prompt.messages)
    return hashlib.sha256(f"{seed}\0{text}".encode()).hexdigest()
