"""Multiple-choice items and the files they are read from."""

from __future__ import annotations

import csv
import json
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from argosy.errors import InputError

LANGS = ("en", "zh")
LETTERS = "ABCDEFGHIJ"


@dataclass(frozen=True)
class Item:
    """A question with options of which one is right: `choices[answer]`.

    Attributes:
        answers: indexes of all right options where several are right; then `answer == answers[0]`. Else ().
        subject: what few-shot shots and distractors are taken by, such as "anatomy".
        cluster: name that related items share (one passage; one fact in two languages): errors are clustered by it.
    """

    id: str
    lang: str
    question: str
    choices: tuple[str, ...]
    answer: int
    answers: tuple[int, ...] = ()
    subject: str = ""
    cluster: str = ""


@dataclass(frozen=True)
class OpenItem:
    """A question whose answer is generated, not chosen (GSM8K).

    Attributes:
        answer: the final answer alone: "18".
        solution: how one gets there, without the final answer's own line; calculations may be annotated as GSM8K
            does (`<<48/2=24>>`), which `changed_numbers` reads and prompts leave out.
    """

    id: str
    lang: str
    question: str
    answer: str
    solution: str = ""
    subject: str = ""
    cluster: str = ""


AnyItem = Item | OpenItem


@dataclass
class Items:
    """The items of one file, and why other lines are not among them (reason -> lines)."""

    items: list[AnyItem] = field(default_factory=list)
    left_out: Counter[str] = field(default_factory=Counter)


class BrokenItem(Exception):
    """A line is no item; the message is the reason that is counted."""


def read_items(path: Path, limit: int | None = None) -> Items:
    """Items of a JSONL file (fields as in docs/architecture.md) or of an MMLU CSV (question, choices, letter or index).

    A line that is no item is left out and counted by reason; so is a second item of the same id.

    Raises:
        InputError: the file cannot be read, its format is unknown, or it has no item at all.
    """
    readers = {".jsonl": _read_jsonl, ".csv": _read_csv}
    if path.suffix not in readers:
        raise InputError(f"{path}: items are read from {', '.join(readers)}")
    if not path.is_file():
        raise InputError(f"{path} does not exist; the data step writes benchmark/en.jsonl and benchmark/zh.jsonl")
    found = Items()
    seen = set()
    for record in readers[path.suffix](path):
        if limit is not None and len(found.items) >= limit:
            break
        try:
            item = record if isinstance(record, BrokenItem) else parse_item(record)
            if isinstance(item, BrokenItem):
                raise item
            if item.id in seen:
                raise BrokenItem("id is there twice")
        except BrokenItem as reason:
            found.left_out[str(reason)] += 1
        else:
            seen.add(item.id)
            found.items.append(item)
    if not found.items:
        raise InputError(f"{path} has no usable item; lines left out: {dict(found.left_out) or 'none, it is empty'}")
    return found


def parse_item(record: Mapping[str, Any]) -> Item:
    """An item of a record.

    Raises:
        BrokenItem: a field is absent or wrong; says which.
    """
    missing = [name for name in ("id", "question", "choices", "answer") if name not in record]
    if missing:
        raise BrokenItem(f"no {missing[0]}")
    choices, answer, lang = record["choices"], record["answer"], record.get("lang", "en")
    if not isinstance(choices, list) or not all(isinstance(c, str) and c.strip() for c in choices):
        raise BrokenItem("choices are not a list of texts")
    if not 2 <= len(choices) <= len(LETTERS):
        raise BrokenItem(f"number of choices is not within 2 to {len(LETTERS)}")
    if len({c.strip() for c in choices}) < len(choices):
        raise BrokenItem("two choices are the same")
    if not isinstance(answer, int) or isinstance(answer, bool) or not 0 <= answer < len(choices):
        raise BrokenItem("answer is not among the choices")
    if not isinstance(record["question"], str) or not record["question"].strip():
        raise BrokenItem("question is not a text")
    if lang not in LANGS:
        raise BrokenItem(f"lang is not one of {', '.join(LANGS)}")
    return Item(str(record["id"]), lang, record["question"].strip(), tuple(c.strip() for c in choices), answer)


def _read_jsonl(path: Path) -> Iterator[Mapping[str, Any] | BrokenItem]:
    with open(path, "rb") as file:
        for line in file:
            if not line.strip():
                continue
            try:
                record = json.loads(line)
            except ValueError:  # also of bytes that are not UTF-8
                yield BrokenItem("not JSON")
                continue
            yield record if isinstance(record, dict) else BrokenItem("not a JSON object")


def _read_csv(path: Path) -> Iterator[Mapping[str, Any] | BrokenItem]:
    with open(path, encoding="utf-8", errors="replace", newline="") as file:
        for number, row in enumerate(csv.reader(file)):
            if number == 0 and row and row[-1].strip() == "answer":
                continue  # a header
            answer = _answer_index(row[-1].strip()) if len(row) >= 4 else None
            if answer is None:
                yield BrokenItem("row is not question, choices, letter or index")
            else:
                yield {"id": f"{path.stem}/{number}", "question": row[0], "choices": row[1:-1], "answer": answer}


def _answer_index(text: str) -> int | None:
    if len(text) == 1 and text in LETTERS:
        return LETTERS.index(text)
    return int(text) if text.isascii() and text.isdigit() else None
