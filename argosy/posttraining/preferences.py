"""Preference pairs: a prompt, a better answer and a worse one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from argosy.documents.parse import ParseError
from argosy.posttraining.chat import check_length, encode, encode_prompt
from argosy.posttraining.config import PosttrainingConfig
from argosy.posttraining.order import training_order
from argosy.posttraining.records import Message, Rejects, check_messages, read_records
from argosy.step_files import given_directory

if TYPE_CHECKING:
    from argosy.posttraining.source import Source


class PreferenceConfig(PosttrainingConfig):
    """A step that learns from pairs.

    Attributes:
        preferences: file of the data step to learn from.
        heldout: file of the data step that is evaluated before and after.
    """

    preferences: str = "preferences.jsonl"
    heldout: str = "preferences_heldout.jsonl"


@dataclass(frozen=True)
class Preference:
    """A usable pair; both sides fit the context.

    Attributes:
        prompt, chosen, rejected: messages, as in the file.
        prompt_ids: the prompt up to where the assistant is to answer.
        chosen_ids, rejected_ids: prompt and answer; they begin with `prompt_ids`.
    """

    prompt: Sequence[Message]
    chosen: Sequence[Message]
    rejected: Sequence[Message]
    prompt_ids: list[int]
    chosen_ids: list[int]
    rejected_ids: list[int]


def preference_parser(tokenizer: Any, max_length: int) -> Callable[[dict[str, Any]], Preference]:
    """The function that makes a Preference of a JSON record, or raises ParseError with the reason."""

    def parse(record: dict[str, Any]) -> Preference:
        prompt, chosen, rejected = (check_messages(record.get(name), name) for name in ("prompt", "chosen", "rejected"))
        for name, side in (("chosen", chosen), ("rejected", rejected)):
            if any(message["role"] != "assistant" for message in side):
                raise ParseError(f"{name} has a turn that is not the assistant's")
        if [m["content"] for m in chosen] == [m["content"] for m in rejected]:
            raise ParseError("chosen and rejected are equal")
        prompt_ids = encode_prompt(tokenizer, prompt)
        chosen_ids, rejected_ids = (encode(tokenizer, [*prompt, *side]) for side in (chosen, rejected))
        for ids in (chosen_ids, rejected_ids):
            check_length(ids, max_length)
            if ids[: len(prompt_ids)] != prompt_ids:
                raise ParseError("the chat template renders the prompt alone in another way than with its answer")
        return Preference(prompt, chosen, rejected, prompt_ids, chosen_ids, rejected_ids)

    return parse


class Pairs(NamedTuple):
    """The usable pairs of both files, and the rest."""

    train: list[Preference]
    heldout: list[Preference]
    rejects: Rejects


def read_pairs(config: PreferenceConfig, source: Source, out: Path) -> Pairs:
    """Read both files; what cannot be used goes to `<out>/rejects/`.

    Raises:
        InputError: one of them has no usable pair.
    """
    data = given_directory("data", config.data, "data")
    parse = preference_parser(source.tokenizer, config.max_length or source.context)
    rejects = Rejects()
    train = read_records(data / config.preferences, parse, rejects)
    heldout = read_records(data / config.heldout, parse, rejects)[: config.heldout_limit]
    rejects.write(out)
    return Pairs(train, heldout, rejects)


def in_order(pairs: Sequence[Preference], config: PosttrainingConfig) -> list[Preference]:
    """The pairs in the order of training, over all epochs, or for `max_steps` steps."""
    lengths = [max(len(pair.chosen_ids), len(pair.rejected_ids)) for pair in pairs]
    order = training_order(lengths, config.batch_size, config.epochs, config.seed, config.max_steps)
    return [pairs[at] for at in order]


def pair_accuracy(margins: Sequence[float]) -> float:
    """Part of the pairs whose margin (better less worse) is positive; one of exactly 0 counts half."""
    return sum(1.0 if margin > 0 else 0.5 if margin == 0 else 0.0 for margin in margins) / len(margins)
