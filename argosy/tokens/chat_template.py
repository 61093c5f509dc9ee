"""How a conversation becomes tokens: the special tokens, the Jinja template, and the same without Jinja."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

BOS, EOS, PAD = "<|bos|>", "<|eos|>", "<|pad|>"
USER, ASSISTANT, END = "<|user|>", "<|assistant|>", "<|end|>"
SPECIAL_TOKENS = (BOS, EOS, PAD, USER, ASSISTANT, END)
SPECIAL_FILE = "special.json"  # of a tokenize step: their ids

# Role tokens and text alone, as newlines between turns would be a quarter of a short conversation. What lies
# in {% generation %} is what SFT learns. There is no token for the system: its message is a turn of the user. An answer
# begins with a space, so that its first word is the token that pretraining met in the middle of sentences.
CHAT_TEMPLATE = (
    "{{ bos_token }}{% for message in messages %}"
    "{% if message['role'] == 'assistant' %}"
    "<|assistant|>{% generation %} {{ message['content'] }}<|end|>{% endgeneration %}"
    "{% else %}<|user|>{{ message['content'] }}<|end|>{% endif %}"
    "{% endfor %}{% if add_generation_prompt %}<|assistant|>{% endif %}"
)


def chat_pieces(messages: Sequence[Mapping[str, Any]]) -> Iterator[tuple[str, bool]]:
    """What CHAT_TEMPLATE renders, as (piece, is a special token).

    Kept apart, so that a text in which somebody has written "<|end|>" stays text.
    """
    yield BOS, True
    for message in messages:
        answer = message["role"] == "assistant"
        yield (ASSISTANT if answer else USER), True
        yield (" " if answer else "") + str(message["content"]), False
        yield END, True
