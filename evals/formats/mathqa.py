"""MathQA (Amini et al., 2019): word problems with five options in one text."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable
from typing import ClassVar

from evals.formats.fields import checked, label_index, text
from evals.formats.format import At, Format, Record
from evals.items import AnyItem, BrokenItem

_MARK = re.compile(r"(?:^\W*|,\s*)([a-e])\s*\)\s*", re.IGNORECASE)


class MathQA(Format):
    """`{"Problem", "options": "a ) 38 , b ) 27.675 , ...", "correct": "a"}` in a JSON list (`test.json`)."""

    name: ClassVar[str] = "mathqa"
    suffixes: ClassVar[tuple[str, ...]] = (".json", ".jsonl")

    def parse(self, record: Record, at: At) -> Iterable[AnyItem]:
        """One item."""
        choices = split_options(text(record, "options"))
        answer = label_index(text(record, "correct"))
        subject = str(record.get("category") or "")
        return [checked(at.id, at.lang or self.lang, text(record, "Problem"), choices, answer, subject=subject)]


def _joined(options: str) -> str:
    """Some rows have the options as a Python list of texts."""
    if not options.startswith("["):
        return options
    try:
        return " , ".join(map(str, ast.literal_eval(options)))
    except (ValueError, SyntaxError, TypeError):
        raise BrokenItem("options could not be split") from None


def split_options(options: str) -> list[str]:
    """Texts behind `a )`, `b )`, ...

    Raises:
        BrokenItem: the letters do not follow each other from a.
    """
    parts = _MARK.split(_joined(options.strip()))
    letters = [letter.lower() for letter in parts[1::2]]
    if not letters or letters != list("abcde"[: len(letters)]):
        raise BrokenItem("options could not be split")
    return [option.strip(" ,") for option in parts[2::2]]
