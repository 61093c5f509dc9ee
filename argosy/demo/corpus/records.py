"""What the generators yield: plain dicts, one line of JSONL each."""

from collections.abc import Iterable, Iterator
from typing import Any, TypedDict


class DocumentRecord(TypedDict):
    """A document; channel is en, code, knowledge_en or knowledge_zh."""

    id: str
    text: str
    channel: str
    lang: str
    source: str
    metadata: dict[str, Any]


class Message(TypedDict):
    """A turn; role is user or assistant."""

    role: str
    content: str


class Conversation(TypedDict):
    """A supervised example; `fact` is the id of the fact it is about."""

    messages: list[Message]
    lang: str
    kind: str
    fact: str


class Preference(TypedDict):
    """A prompt with a better and a worse reply."""

    prompt: list[Message]
    chosen: list[Message]
    rejected: list[Message]
    lang: str
    kind: str
    fact: str


class Prompt(TypedDict):
    """A prompt whose reply can be checked: format is text, json ({"answer": ...}) or letter."""

    prompt: list[Message]
    answer: str
    accept: list[str]
    format: str
    lang: str
    fact: str


class Item(TypedDict):
    """A four-option benchmark item; `answer` is the index of the right choice, `cluster` what related items share:
    the fact that is asked about in both languages."""

    id: str
    cluster: str
    lang: str
    relation: str
    question: str
    choices: list[str]
    answer: int


def user(text: str) -> list[Message]:
    """A conversation of one user turn."""
    return [{"role": "user", "content": text}]


def assistant(text: str) -> list[Message]:
    """One assistant turn."""
    return [{"role": "assistant", "content": text}]


def until_bytes(records: Iterable[DocumentRecord], max_bytes: int) -> Iterator[DocumentRecord]:
    """Records in order, as long as their texts together stay within `max_bytes` of UTF-8."""
    total = 0
    for record in records:
        total += len(record["text"].encode())
        if total > max_bytes:
            return
        yield record
