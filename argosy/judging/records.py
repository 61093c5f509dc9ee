"""Prompts, answers and people's verdicts from JSONL files; lines that are none are counted by reason."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from argosy.errors import InputError

WINNERS = ("first", "second", "tie")
T = TypeVar("T")


@dataclass(frozen=True)
class Prompt:
    """A user's single turn."""

    id: str
    text: str


@dataclass(frozen=True)
class Answer:
    """What a model answered; ended: it ended itself (False: cut at the limit of tokens)."""

    id: str
    text: str
    ended: bool = True


class BrokenRecord(Exception):
    """A line is not what it should be; the message is the reason that is counted."""


def read_prompts(path: Path, left_out: Counter[str]) -> list[Prompt]:
    """Of each line `prompt`, a text or a list of messages whose only one is the user's, and `id` (or its number).

    Raises:
        InputError: the file cannot be read or has no prompt.
    """
    return list(_read(path, _prompt, left_out, '{"id": "1", "prompt": "..."}').values())


def read_answers(path: Path, left_out: Counter[str]) -> dict[str, Answer]:
    """Answers by the id of their prompt.

    Raises:
        InputError: the file cannot be read or has no answer.
    """
    return _read(path, _answer, left_out, '{"id": "1", "answer": "..."}')


def read_labels(path: Path, left_out: Counter[str]) -> dict[str, str]:
    """Who won by the word of people or of another judge: `winner` is first, second or tie.

    Raises:
        InputError: the file cannot be read or has no label.
    """
    return _read(path, _label, left_out, '{"id": "1", "winner": "first"}')


def _read(
    path: Path, parse: Callable[[Mapping[str, Any], str], T], left_out: Counter[str], example: str
) -> dict[str, T]:
    if not path.is_file():
        raise InputError(f"{path} does not exist; allowed: a JSONL file whose lines are as {example}")
    found: dict[str, T] = {}
    for number, line in _lines(path):
        try:
            record = _record(line)
            name = str(record.get("id", number))
            if name in found:
                raise BrokenRecord("id is there twice")
            found[name] = parse(record, name)
        except BrokenRecord as reason:
            left_out[f"{path.name}: {reason}"] += 1
    if not found:
        raise InputError(f"{path} has no usable line; allowed: lines as {example}. Left out: {dict(left_out)}")
    return found


def _lines(path: Path) -> Iterator[tuple[int, bytes]]:
    with open(path, "rb") as file:
        yield from ((number, line) for number, line in enumerate(file, 1) if line.strip())


def _record(line: bytes) -> Mapping[str, Any]:
    try:
        record = json.loads(line)
    except ValueError:  # also of bytes that are not UTF-8
        raise BrokenRecord("not JSON") from None
    if not isinstance(record, dict):
        raise BrokenRecord("not a JSON object")
    return record


def _prompt(record: Mapping[str, Any], name: str) -> Prompt:
    value = record.get("prompt")
    if isinstance(value, list) and len(value) == 1 and isinstance(value[0], dict) and value[0].get("role") == "user":
        value = value[0].get("content")
    if not isinstance(value, str) or not value.strip():
        raise BrokenRecord("prompt is neither a text nor one user's message")
    return Prompt(name, value)


def _answer(record: Mapping[str, Any], name: str) -> Answer:
    if not isinstance(record.get("answer"), str):
        raise BrokenRecord("answer is not a text")
    return Answer(name, record["answer"], bool(record.get("ended", True)))


def _label(record: Mapping[str, Any], name: str) -> str:
    if record.get("winner") not in WINNERS:
        raise BrokenRecord(f"winner is not one of {', '.join(WINNERS)}")
    return str(record["winner"])
