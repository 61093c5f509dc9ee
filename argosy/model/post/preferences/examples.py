"""Examples of preferences: pairs of answers to a prompt, or answers that are good or bad by themselves."""

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from argosy.core.config.explain import grouped
from argosy.core.errors import InputError
from argosy.corpus.data.schemas import Message, ParseError, turns_of
from argosy.corpus.data.sources import DEFAULT_CHANNEL, channel_of
from argosy.model.post.config import PreferenceConfig
from argosy.model.post.stage import Stage
from argosy.model.weights.chat import check_length, encode_answer


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
        return (self.ids,)


Example = Preference | Feedback
E = TypeVar("E", bound=Example)


def preference_parser(tokenizer: Any, max_length: int) -> Callable[[dict[str, Any]], Preference]:
    """Return a function that makes a Preference of a JSON record, or raises ParseError with the reason."""

    def parse(record: dict[str, Any]) -> Preference:
        prompt, chosen, rejected = turns_of("preferences", record, "prompt", "chosen", "rejected")
        prompt_ids, better, worse = _encode(tokenizer, prompt, (chosen, rejected), max_length, record.get("tools"))
        margin = record.get("margin", 0.0)
        if isinstance(margin, bool) or not isinstance(margin, int | float) or not abs(margin) < float("inf"):
            raise ParseError("margin is not a number", repr(margin))
        return Preference(prompt_ids, better, worse, channel_of(record), float(margin))

    return parse


def _encode(
    tokenizer: Any, prompt: Sequence[Message], answers: Sequence[Sequence[Message]], max_length: int, tools: Any
) -> list[list[int]]:
    """Return the tokens of the prompt, and of it with each answer."""
    both = [encode_answer(tokenizer, prompt, answer, tools) for answer in answers]
    for prompt_ids, ids in both:
        check_length(ids, max_length)
        if len(ids) == len(prompt_ids):
            raise ParseError("the chat template renders no answer")
    return [both[0][0], *(ids for _, ids in both)]


def split(pairs: Sequence[Preference]) -> list[Feedback]:
    """Return the answers of pairs by themselves: the better one of each is good, the other bad."""
    return [Feedback(pair.prompt_ids, ids, good, pair.channel)
            for pair in pairs for ids, good in ((pair.chosen_ids, True), (pair.rejected_ids, False))]


def read_pairs(stage: Stage[PreferenceConfig]) -> tuple[list[Preference], list[Preference]]:
    """Return (training pairs, held-out pairs); unusable records go to `rejects/`. Raises InputError: one of the files
    has no usable pair."""
    return _read(stage, preference_parser(stage.source.tokenizer, stage.config.max_length or stage.source.context))


def read_answers(stage: Stage[PreferenceConfig]) -> tuple[list[Feedback], list[Example]]:
    """Return (training answers, held-out pairs and answers); of pairs to learn from, each is split in two. Raises
    InputError: one of the files has no usable record."""
    tokenizer, longest = stage.source.tokenizer, stage.config.max_length or stage.source.context
    pair = preference_parser(tokenizer, longest)

    def parse(record: dict[str, Any]) -> Example:
        if "chosen" in record:
            return pair(record)
        prompt, completion = turns_of("feedback", record, "prompt", "completion")
        prompt_ids, ids = _encode(tokenizer, prompt, (completion,), longest, record.get("tools"))
        return Feedback(prompt_ids, ids, record["label"], channel_of(record))

    train, heldout = _read(stage, parse)
    return [each for example in train for each in (split([example]) if isinstance(example, Preference) else [example])
            ], heldout


def _read(stage: Stage[PreferenceConfig], parse: Callable[[dict[str, Any]], E]) -> tuple[list[E], list[E]]:
    config = stage.config
    train = stage.read(parse, config.preferences)
    if config.heldout:
        heldout = stage.read(parse, config.heldout)[: config.heldout_limit]
    else:
        train, heldout = hold_out(train, config.heldout_limit, config.seed)
    stage.keep_rejects()
    return train, heldout


def hold_out(examples: Sequence[E], count: int, seed: int) -> tuple[list[E], list[E]]:
    """Return (examples to train on, `count` others or a few less, a quarter of all at most).

    Those of one prompt stay on one side; which one depends on the prompt's tokens and the seed alone. Raises
    InputError: the prompts are too few or too much alike."""
    prompts = grouped((hashlib.sha256(f"{seed}/{example.prompt_ids}".encode()).hexdigest(), number)
                      for number, example in enumerate(examples))
    held: set[int] = set()
    for digest in sorted(prompts):
        if len(held) + len(prompts[digest]) <= min(count, len(examples) // 4):
            held |= set(prompts[digest])
    if not held:
        raise InputError(f"the {len(examples)} examples have {len(prompts)} different prompts, of which none can be "
                         "held out: name a file of others as `heldout`")
    return ([each for number, each in enumerate(examples) if number not in held],
            [each for number, each in enumerate(examples) if number in held])


def channels_of(examples: Sequence[Example]) -> tuple[str, ...]:
    return tuple(sorted({example.channel for example in examples}))
