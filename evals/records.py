"""Records of benchmark files: cutting a file into them, and reading their fields, each in one way, never guessed.

A reader of a field raises BrokenItem with the reason where the field is absent or wrong.
"""

from __future__ import annotations

import csv
import io
import json
import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

from argosy.data.jsonl import Reject, parse_or_reject
from argosy.errors import InputError
from evals.items import LANGS, LETTERS, BrokenItem, Item

Record = Mapping[str, Any]
Records = Iterator[Record | BrokenItem]
_UTF16 = (b"\xff\xfe", b"\xfe\xff")
_BOM = b"\xef\xbb\xbf"
_AROUND = " \t\r\n()[]{}<>.:,、。"


def json_lines(path: Path, encoding: str = "utf-8") -> Records:
    """Read the objects of a JSONL file; lines that are none as BrokenItem."""
    read_bytes(path, 2)
    for line in parse_or_reject(path, lambda _, record: record, encoding=encoding):
        yield BrokenItem(line.reason) if isinstance(line, Reject) else line


def json_list(path: Path, encoding: str = "utf-8", key: str = "") -> Records:
    """Read the objects of a JSON file that is a list, or an object with a list in `key`.

    Raises:
        InputError: the file is no such JSON.
    """
    try:
        data = json.loads(read_bytes(path).removeprefix(_BOM).decode(encoding))
    except ValueError as error:
        raise InputError(f"{path} is not JSON in {encoding} ({error}); mend it, or say its `encoding`") from None
    found = data.get(key) if key and isinstance(data, dict) else data
    if not isinstance(found, list):
        raise InputError(f"{path} is not a JSON list{f' or an object with one in {key!r}' if key else ''}")
    yield from (record if isinstance(record, dict) else BrokenItem("not a JSON object") for record in found)


def csv_rows(path: Path, encoding: str = "utf-8") -> Iterator[list[str] | BrokenItem]:
    """Read the rows of a CSV; those with bytes that are not of `encoding` as BrokenItem."""
    text = read_bytes(path).removeprefix(_BOM).decode(encoding, errors="surrogateescape")
    try:
        for row in csv.reader(io.StringIO(text, newline="")):
            readable = not any("\udc80" <= char <= "\udcff" for field in row for char in field)
            yield row if readable else BrokenItem(f"invalid {encoding.upper()}")
    except csv.Error as error:
        yield BrokenItem(f"the rest of the file is no CSV ({error})")


def csv_records(path: Path, encoding: str = "utf-8", needs: Sequence[str] = ()) -> Records:
    """Read the rows of a CSV by its header's names, in lower case.

    Raises:
        InputError: the header lacks one of `needs`.
    """
    rows = csv_rows(path, encoding)
    first = next(rows, [])
    header = [] if isinstance(first, BrokenItem) else [name.strip().lower() for name in first]
    if absent := [name for name in needs if name not in header]:
        raise InputError(f"{path} has no column {absent[0]!r}; its header is {', '.join(header) or 'empty'}")
    for row in rows:
        if isinstance(row, BrokenItem):
            yield row
        elif any(field.strip() for field in row):
            fits = len(row) == len(header)
            yield dict(zip(header, row, strict=True)) if fits else BrokenItem("row has another number of columns")


def with_labels(path: Path, encoding: str, field: str = "label") -> Records:
    """Read the lines of `dev.jsonl` with those of `dev-labels.lst` as `field`, where such a file is beside it.

    Raises:
        InputError: the two have different numbers of lines.
    """
    file = path.with_name(f"{path.stem}-labels.lst")
    records = json_lines(path, encoding)
    if not file.is_file():
        yield from records
        return
    labels, lines = read_bytes(file).decode("utf-8-sig").split(), 0
    for record in records:
        label = labels[lines] if lines < len(labels) else None
        lines += 1
        yield record if isinstance(record, BrokenItem) else {field: label, **record}
    if lines != len(labels):
        raise InputError(f"{path} has {lines} lines and {file.name} {len(labels)}: they are not of one split")


def read_bytes(path: Path, size: int = -1) -> bytes:
    """Read the file's bytes, or the first `size` of them.

    Raises:
        InputError: it is UTF-16, which no format here is in.
    """
    with open(path, "rb") as file:
        data = file.read(size)
    if data.startswith(_UTF16):
        raise InputError(f"{path} is UTF-16; save it as UTF-8")
    return data


def text(record: Record, name: str) -> str:
    """Read a field that is a text, without space around it."""
    if name not in record or record[name] is None:
        raise BrokenItem(f"no {name}")
    value = record[name]
    if not isinstance(value, str) or not value.strip():
        raise BrokenItem(f"{name} is not a text")
    return value.strip()


def label_index(value: object, labels: Sequence[str] = LETTERS) -> int:
    """Read the index of a label: "B", "b", "(B)", "B." and full-width "Ｂ" are all 1."""
    label = unicodedata.normalize("NFKC", value).strip(_AROUND) if isinstance(value, str) else value
    known = [unicodedata.normalize("NFKC", label).strip(_AROUND).upper() for label in labels]
    if not isinstance(label, str) or label.upper() not in known:
        raise BrokenItem("answer is not a label of the choices")
    return known.index(label.upper())


def label_indexes(value: object) -> tuple[int, ...]:
    """Read the indexes of several labels: "ACD", "A,C,D", "ＡＣ" or ["A", "C"], each once, in order."""
    joined = "".join(map(str, value)) if isinstance(value, list | tuple) else str(value)
    letters = re.sub(r"[\s,、，;()]+", "", unicodedata.normalize("NFKC", joined)).upper()
    if not letters or not set(letters) <= set(LETTERS):
        raise BrokenItem("answer is not a label of the choices")
    return tuple(sorted({LETTERS.index(letter) for letter in letters}))


def number_index(value: object, first: int) -> int:
    """Read the index of a number, or of its digits, where counting begins at `first` (0 or 1)."""
    if isinstance(value, str):
        digits = unicodedata.normalize("NFKC", value).strip()
        value = int(digits) if re.fullmatch(r"-?[0-9]+", digits) else value
    if not isinstance(value, int) or isinstance(value, bool):
        raise BrokenItem("answer is not a number")
    return value - first


def checked(
    id: str, lang: str, question: str, choices: Iterable[object], answer: int, *, answers: tuple[int, ...] = (),
    subject: str = "", cluster: str = "",
) -> Item:  # fmt: skip
    """Make an item of its fields, when they are one."""
    found = list(choices)
    texts = [choice.strip() for choice in found if isinstance(choice, str) and choice.strip()]
    if len(texts) < len(found):
        raise BrokenItem("choices are not a list of texts")
    if not 2 <= len(texts) <= len(LETTERS):
        raise BrokenItem(f"number of choices is not within 2 to {len(LETTERS)}")
    if len(set(texts)) < len(texts):
        raise BrokenItem("two choices are the same")
    if not all(0 <= right < len(texts) for right in (answer, *answers)):
        raise BrokenItem("answer is not among the choices")
    if not question.strip():
        raise BrokenItem("question is not a text")
    if lang not in LANGS:
        raise BrokenItem(f"lang is not one of {', '.join(LANGS)}")
    answers = answers if len(answers) > 1 else ()
    return Item(id, lang, question.strip(), tuple(texts), answer, answers, subject, cluster)


def mixed(item: Item) -> Item:
    """Put the options in an order that the item's id decides, for formats that publish the right one first."""
    order = list(range(len(item.choices)))
    Random(f"order/{item.id}").shuffle(order)
    rights = tuple(sorted(order.index(right) for right in item.answers))
    answer = rights[0] if rights else order.index(item.answer)
    choices = tuple(item.choices[old] for old in order)
    return replace(item, choices=choices, answer=answer, answers=rights, mixed=True)
