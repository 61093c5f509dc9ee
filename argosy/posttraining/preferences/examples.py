"""Examples of preferences: pairs of answers to a prompt, or answers that are good or bad by themselves."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from argosy.data.schemas import Message, ParseError, turns_of
from argosy.models.chat import check_length, encode, encode_prompt
from argosy.posttraining.config import PreferenceConfig
from argosy.posttraining.stage import Stage

DEFAULT_CHANNEL = "default"


@dataclass(frozen=True)
class Preference:
    """A usable pair; both sides fit the context, and their ids begin with `prompt_ids`.

    Attributes:
        prompt_ids: the prompt up to where the assistant is to answer.
        chosen_ids, rejected_ids: prompt and answer.
        margin: by how much the better one is better, in units of reward; 0 where nobody said."""

    prompt_ids: list[int]
    chosen_ids: list[int]
    rejected_ids: list[int]
    channel: str = DEFAULT_CHANNEL
    margin: float = 0.0

    @property
    def sides(self) -> tuple[list[int], ...]:
        """Return what is laid out of it: the chosen side, then the rejected one."""
        return self.chosen_ids, self.rejected_ids


@dataclass(frozen=True)
class Feedback:
    """A usable answer that is good or bad; `ids` begin with `prompt_ids`."""

    prompt_ids: list[int]
    ids: list[int]
    good: bool
    channel: str = DEFAULT_CHANNEL

    @property
    def sides(self) -> tuple[list[int], ...]:
        """Return what is laid out of it."""
        return (self.ids,)


Example = Preference | Feedback


def preference_parser(tokenizer: Any, max_length: int) -> Callable[[dict[str, Any]], Preference]:
    """Return a function that makes a Preference of a JSON record, or raises ParseError with the reason."""

    def parse(record: dict[str, Any]) -> Preference:
        prompt, chosen, rejected = turns_of("preferences", record, "prompt", "chosen", "rejected")
        prompt_ids, better, worse = _encode(tokenizer, prompt, (chosen, rejected), max_length)
        margin = record.get("margin", 0.0)
        if isinstance(margin, bool) or not isinstance(margin, int | float) or not abs(margin) < float("inf"):
            raise ParseError("margin is not a number", repr(margin))
        return Preference(prompt_ids, better, worse, _channel(record), float(margin))

    return parse


def feedback_parser(tokenizer: Any, max_length: int) -> Callable[[dict[str, Any]], Feedback]:
    """Return a function that makes a Feedback of a JSON record, or raises ParseError with the reason."""

    def parse(record: dict[str, Any]) -> Feedback:
        prompt, completion = turns_of("feedback", record, "prompt", "completion")
        prompt_ids, ids = _encode(tokenizer, prompt, (completion,), max_length)
        return Feedback(prompt_ids, ids, record["label"], _channel(record))

    return parse


def _channel(record: dict[str, Any]) -> str:
    return str(record.get("channel") or DEFAULT_CHANNEL)


def _encode(
    tokenizer: Any, prompt: Sequence[Message], answers: Sequence[Sequence[Message]], max_length: int
) -> list[list[int]]:
    """Return the tokens of the prompt, and of it with each answer."""
    prompt_ids = encode_prompt(tokenizer, prompt)
    sides = [encode(tokenizer, [*prompt, *answer]) for answer in answers]
    for ids in sides:
        check_length(ids, max_length)
        if ids[: len(prompt_ids)] != prompt_ids:
            raise ParseError("the chat template renders the prompt alone in another way than with its answer")
        if len(ids) == len(prompt_ids):
            raise ParseError("the chat template renders no answer")
    return [prompt_ids, *sides]


def split(pairs: Sequence[Preference]) -> list[Feedback]:
    """Return the answers of pairs by themselves: the better one of each is good, the other bad."""
    return [Feedback(pair.prompt_ids, ids, good, pair.channel)
            for pair in pairs for ids, good in ((pair.chosen_ids, True), (pair.rejected_ids, False))]


def read_pairs(stage: Stage[PreferenceConfig]) -> tuple[list[Preference], list[Preference]]:
    """Return (training pairs, held-out pairs); unusable records go to `rejects/`.

    Raises InputError: one of the files has no usable pair."""
    config = stage.config
    parse = preference_parser(stage.source.tokenizer, config.max_length or stage.source.context)
    train, heldout = stage.read(parse, config.preferences), stage.read(parse, config.heldout)[: config.heldout_limit]
    stage.keep_rejects()
    return train, heldout


def read_feedback(stage: Stage[Any], file: str) -> list[Feedback]:
    """Return the answers of a file of the data step. Raises InputError: it has no usable one."""
    parse = feedback_parser(stage.source.tokenizer, stage.config.max_length or stage.source.context)
    found = stage.read(parse, file)
    stage.keep_rejects()
    return found


def channels_of(examples: Sequence[Example]) -> tuple[str, ...]:
    """Return the names of the examples' channels, in order."""
    return tuple(sorted({example.channel for example in examples}))
