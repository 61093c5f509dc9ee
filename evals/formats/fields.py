"""Fields of records: texts, options and right answers, each read in one declared way and never guessed."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from random import Random
from typing import Any

from evals.items import LANGS, LETTERS, BrokenItem, Item

_AROUND = " \t\r\n()[]{}<>.:,、。"


def text(record: Mapping[str, Any], name: str) -> str:
    """A field that is a text, without space around it.

    Raises:
        BrokenItem: it is absent, no text, or empty.
    """
    if name not in record or record[name] is None:
        raise BrokenItem(f"no {name}")
    value = record[name]
    if not isinstance(value, str) or not value.strip():
        raise BrokenItem(f"{name} is not a text")
    return value.strip()


def label_index(value: object, labels: Sequence[str] = LETTERS) -> int:
    """Index of a label: "B", "b", "(B)", "B." and full-width "Ｂ" are all 1.

    Raises:
        BrokenItem: it is no label.
    """
    found = unicodedata.normalize("NFKC", value).strip(_AROUND) if isinstance(value, str) else value
    known = [unicodedata.normalize("NFKC", label).strip(_AROUND).upper() for label in labels]
    if not isinstance(found, str) or found.upper() not in known:
        raise BrokenItem("answer is not a label of the choices")
    return known.index(found.upper())


def label_indexes(value: object) -> tuple[int, ...]:
    """Indexes of several labels: "ACD", "A,C,D", "ＡＣ" or ["A", "C"], without double ones, in order.

    Raises:
        BrokenItem: there is something else than labels.
    """
    joined = "".join(map(str, value)) if isinstance(value, list | tuple) else str(value)
    letters = re.sub(r"[\s,、，;()]+", "", unicodedata.normalize("NFKC", joined)).upper()
    if not letters or not set(letters) <= set(LETTERS):
        raise BrokenItem("answer is not a label of the choices")
    return tuple(sorted({LETTERS.index(letter) for letter in letters}))


def number_index(value: object, first: int) -> int:
    """Index of a number, or of its digits, where counting begins at `first` (0 or 1).

    Raises:
        BrokenItem: it is no whole number.
    """
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
    """An item, when it is one.

    Raises:
        BrokenItem: what it lacks.
    """
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
    """The item with its options in an order that its id decides, for formats that publish the right one first."""
    order = list(range(len(item.choices)))
    Random(f"order/{item.id}").shuffle(order)
    rights = tuple(sorted(order.index(right) for right in item.answers))
    answer = rights[0] if rights else order.index(item.answer)
    choices = tuple(item.choices[old] for old in order)
    return replace(item, choices=choices, answer=answer, answers=rights, mixed=True)


def subject_of(file: str) -> str:
    """Subject that a file's name says: `abstract_algebra` of `abstract_algebra_test`."""
    return re.sub(r"[_-](test|dev|val|validation|train)$", "", file)

