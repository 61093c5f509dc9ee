"""Argosy's own items, as JSONL."""

from __future__ import annotations

from collections.abc import Iterable

from evals.formats import At, Format
from evals.items import LANGS, AnyItem, BrokenItem, OpenItem
from evals.records import Record, checked, label_index, number_index, text


class Argosy(Format):
    """`{"id", "lang", "question", "choices": [...], "answer"}`: the answer is an index from 0, or a label ("B").

    `answers` (several right options), `subject` and `cluster` may be added. Without `choices`, `answer` is the text
    that has to be generated, and `solution` how one gets there.
    """

    name = "argosy"
    suffixes = (".jsonl", ".json")

    def parse(self, record: Record, at: At) -> Iterable[AnyItem]:
        """Read one item."""
        absent = next((name for name in ("id", "question", "answer") if name not in record), None)
        if absent:
            raise BrokenItem(f"no {absent}")
        lang = str(record.get("lang", at.lang or self.lang))
        about = {"subject": str(record.get("subject", "")), "cluster": str(record.get("cluster", ""))}
        if "choices" not in record:
            if lang not in LANGS:
                raise BrokenItem(f"lang is not one of {', '.join(LANGS)}")
            answer = record["answer"]
            if "solution" not in record:
                raise BrokenItem("no choices")
            if isinstance(answer, bool) or not isinstance(answer, str | int | float):
                raise BrokenItem("answer is not a text")
            return [OpenItem(str(record["id"]), lang, text(record, "question"), str(answer).strip(),
                             str(record["solution"]), **about)]  # fmt: skip
        choices = record["choices"]
        if not isinstance(choices, list):
            raise BrokenItem("choices are not a list of texts")
        rights = record.get("answers") or [record["answer"]]
        if not isinstance(rights, list):
            raise BrokenItem("answers are not a list")
        answers = tuple(sorted({self._index(right, at) for right in rights}))
        question = text(record, "question")
        return [checked(str(record["id"]), lang, question, choices, answers[0], answers=answers, **about)]

    def _index(self, value: object, at: At) -> int:
        if isinstance(value, str):
            return label_index(value)
        try:
            return number_index(value, at.index_from or 0)
        except BrokenItem:
            raise BrokenItem("answer is not among the choices") from None
