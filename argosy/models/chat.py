"""Conversations and prompts as token ids, by the tokenizer's own chat template."""

import contextlib
import threading
from collections.abc import Callable, Sequence
from typing import Any

from argosy.data.schemas import Message, ParseError
from argosy.errors import InputError

LONGEST_S = 60.0  # of the template for one turn, which takes milliseconds


def check_ends(tokenizer: Any) -> None:
    """Refuse a chat template that goes on and on: it is a program of whoever made the checkpoint.

    Raises InputError: it has not ended after LONGEST_S."""
    def render() -> None:
        with contextlib.suppress(Exception):  # whoever uses it says what is wrong with it
            tokenizer.apply_chat_template([{"role": "user", "content": "a"}], tokenize=False)

    if tokenizer.chat_template:
        thread = threading.Thread(target=render, name="chat template", daemon=True)
        thread.start()
        thread.join(LONGEST_S)
        if thread.is_alive():
            raise InputError(f"the chat template of the checkpoint's tokenizer has not ended after {LONGEST_S:g} s for "
                             "one short turn: correct its chat_template")


def check_template(tokenizer: Any) -> None:
    """Refuse a tokenizer whose template cannot tell the assistant's tokens.

    Raises InputError: it has no chat template, one without {% generation %}, or one that does not end."""
    check_ends(tokenizer)
    template = tokenizer.chat_template
    if not template or "generation" not in template:
        raise InputError(
            "the checkpoint's tokenizer has no chat template with {% generation %} marks, "
            "so the assistant's tokens cannot be told from the others; train the tokenizer with one"
        )


def encode_prompt(tokenizer: Any, messages: Sequence[Message]) -> list[int]:
    """Token ids of `messages` up to where the assistant is to answer."""
    encoded = tokenizer.apply_chat_template(list(messages), tokenize=True, return_dict=True, add_generation_prompt=True)
    return list(encoded["input_ids"])


def encode(tokenizer: Any, messages: Sequence[Message]) -> list[int]:
    """Token ids of the whole conversation."""
    return list(tokenizer.apply_chat_template(list(messages), tokenize=True, return_dict=True)["input_ids"])


def check_length(ids: Sequence[int], max_length: int) -> None:
    """Raises ParseError if there are more than `max_length` ids."""
    if len(ids) > max_length:
        raise ParseError(f"longer than {max_length} tokens")


def end_tokens(tokenizer: Any, *, chat: bool = True, configured: Any = None) -> list[int]:
    """Ids that end an answer: end of sequence, those of a generation config, and the end of a turn in a chat.

    `chat`: whether the answer is a turn in the chat template. `configured`: `eos_token_id` of the model's generation
    config: an id, several, or None."""
    ends = {tokenizer.eos_token_id, *(configured if isinstance(configured, list | tuple) else [configured])}
    if chat:
        ends.add(_end_of_turn(tokenizer))
    return sorted(int(token) for token in ends if token is not None)


def _end_of_turn(tokenizer: Any) -> int | None:
    """The first special token that the template puts behind an assistant's words."""
    word = "xyzzy"  # in no template
    messages = [{"role": "user", "content": "a"}, {"role": "assistant", "content": word}]
    whole: str = tokenizer.apply_chat_template(messages, tokenize=False)
    tail = tokenizer(whole.rpartition(word)[2], add_special_tokens=False)["input_ids"]
    special = {token for token, added in tokenizer.added_tokens_decoder.items() if added.special}
    return next((token for token in tail if token in special), None)


def answer_start(render: Callable[..., str]) -> str:
    """Text that a chat template puts between the generation prompt and the answer's own words.

    `render`: messages -> text, as lm-eval's `LM.apply_chat_template`."""
    user, word = {"role": "user", "content": "a"}, "b"
    whole = render([user, {"role": "assistant", "content": word}], add_generation_prompt=False)
    prompt = render([user])
    return whole[len(prompt) : -len(word)] if whole.startswith(prompt) and whole.endswith(word) else ""
