"""Prompts, answers and people's verdicts from JSONL files; lines that are none are counted by reason."""

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from argosy.core.errors import InputError
from argosy.corpus.data.jsonl import parse_lines
from argosy.corpus.data.schemas import ParseError

WINNERS = ("first", "second", "tie")
T = TypeVar("T")


@dataclass(frozen=True)
class Prompt:
    """A user's single turn."""

    id: str
    text: str


@dataclass(frozen=True)
class Answer:
    """A model's answer to a prompt."""

    id: str
    text: str
    ended: bool = True
    """the model ended it itself; False: it was cut at the limit of tokens"""


def read_prompts(path: Path, left_out: Counter[str]) -> list[Prompt]:
    """Read prompts: `prompt`, a text or a list of messages whose only one is the user's, and `id` (or its number).
    Raises InputError: the file cannot be read or has no prompt."""
    return list(_read(path, _prompt, left_out, '{"id": "1", "prompt": "..."}').values())


def read_answers(path: Path, left_out: Counter[str]) -> dict[str, Answer]:
    """Read answers, by the id of their prompt. Raises InputError: the file cannot be read or has no answer."""
    return _read(path, _answer, left_out, '{"id": "1", "answer": "..."}')


def read_labels(path: Path, left_out: Counter[str]) -> dict[str, str]:
    """Read verdicts of people or of another judge, by the id of their prompt: `winner` is first, second or tie. Raises
    InputError: the file cannot be read or has no label."""
    return _read(path, _label, left_out, '{"id": "1", "winner": "first"}')


def _read(path: Path, parse: Callable[[Mapping[str, Any], str], T], left_out: Counter[str],
          example: str) -> dict[str, T]:
    if not path.is_file():
        raise InputError(f"{path} does not exist; allowed: a JSONL file whose lines are as {example}")
    records: dict[str, T] = {}

    def add(number: int, record: dict[str, Any]) -> None:
        name = str(record.get("id", number))
        if name in records:
            raise ParseError("id is there twice")
        records[name] = parse(record, name)

    reasons: Counter[str] = Counter()
    list(parse_lines(path, add, reasons))
    left_out.update({f"{path.name}: {reason}": n for reason, n in reasons.items()})
    if not records:
        raise InputError(f"{path} has no usable line; allowed: lines as {example}. Left out: {dict(left_out)}")
    return records


def _prompt(record: Mapping[str, Any], name: str) -> Prompt:
    value = record.get("prompt")
    if isinstance(value, list) and len(value) == 1 and isinstance(value[0], dict) and value[0].get("role") == "user":
        value = value[0].get("content")
    if not isinstance(value, str) or not value.strip():
        raise ParseError("prompt is neither a text nor one user's message")
    return Prompt(name, value)


def _answer(record: Mapping[str, Any], name: str) -> Answer:
    if not isinstance(record.get("answer"), str):
        raise ParseError("answer is not a text")
    return Answer(name, record["answer"], bool(record.get("ended", True)))


def _label(record: Mapping[str, Any], name: str) -> str:
    if record.get("winner") not in WINNERS:
        raise ParseError(f"winner is not one of {', '.join(WINNERS)}")
    return str(record["winner"])
