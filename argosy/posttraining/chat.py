"""Conversations and prompts as token ids, by the tokenizer's own chat template."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from argosy.documents.parse import ParseError
from argosy.errors import InputError
from argosy.posttraining.records import Message, check_messages

IGNORED = -100  # the label that cross-entropy leaves out


@dataclass(frozen=True)
class Conversation:
    """A conversation to learn from.

    Attributes:
        input_ids: the rendered conversation.
        labels: the same ids, IGNORED where the chat template does not mark the assistant's words. The end-of-turn
            token is marked too, so that the model learns to stop.
        prompt_ids: what the model is given to answer its last turn.
        answer: that turn's text.
    """

    input_ids: list[int]
    labels: list[int]
    prompt_ids: list[int]
    answer: str


def check_template(tokenizer: Any) -> None:
    """Refuse a tokenizer whose template cannot tell the assistant's tokens.

    Raises:
        InputError: it has no chat template, or one without {% generation %}.
    """
    template = tokenizer.chat_template
    if not template or "generation" not in template:
        raise InputError(
            "the checkpoint's tokenizer has no chat template with {% generation %} marks, "
            "so the assistant's tokens cannot be told from the others; train the tokenizer with one"
        )


def conversation_parser(tokenizer: Any, max_length: int) -> Callable[[dict[str, Any]], Conversation]:
    """The function that makes a Conversation of a JSON record, or raises ParseError with the reason."""

    def parse(record: dict[str, Any]) -> Conversation:
        messages = check_messages(record.get("messages"), "messages")
        turns = [index for index, message in enumerate(messages) if message["role"] == "assistant"]
        if not turns:
            raise ParseError("no assistant turn")
        encoded = tokenizer.apply_chat_template(
            list(messages), tokenize=True, return_dict=True, return_assistant_tokens_mask=True
        )
        ids, mask = encoded["input_ids"], encoded["assistant_masks"]
        check_length(ids, max_length)
        labels = [token if marked else IGNORED for token, marked in zip(ids, mask, strict=True)]
        prompt = encode_prompt(tokenizer, messages[: turns[-1]])
        return Conversation(ids, labels, prompt, messages[turns[-1]]["content"])

    return parse


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


def stop_token_ids(tokenizer: Any) -> list[int]:
    """Ids that end an answer: the last one that the template marks as the assistant's, and end of sequence."""
    messages = [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]
    encoded = tokenizer.apply_chat_template(
        messages, tokenize=True, return_dict=True, return_assistant_tokens_mask=True
    )
    marked = [token for token, mask in zip(encoded["input_ids"], encoded["assistant_masks"], strict=True) if mask]
    return sorted({marked[-1], tokenizer.eos_token_id})
