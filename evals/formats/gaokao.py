"""GAOKAO-Bench (Zhang et al., 2023): questions of the Chinese university entrance examination, objective ones."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any, ClassVar

from evals.formats.exam_text import Asked, blank_numbers, clean, runs_of_options, split_questions
from evals.formats.fields import checked, label_indexes
from evals.formats.format import At, Format, Record, Records, json_list
from evals.items import AnyItem, BrokenItem

UNSPLIT = "options could not be split from the question's text"


class Gaokao(Format):
    """`{"example": [{"question", "answer": ["D"], "year", "index"}]}`: the options are in the question's text
    (`A．… B．…`), `"AC"` is several right ones, and a record may be a passage with several questions, which are a
    cluster then. The subject is in the file's name (`2010-2022_History_MCQs`); items are in English where it says so,
    else in Chinese. Questions whose text cannot be split, or whose options are in a table, are left out."""

    name: ClassVar[str] = "gaokao"
    lang: ClassVar[str] = "zh"
    suffixes: ClassVar[tuple[str, ...]] = (".json",)

    def records(self, path: Path, encoding: str = "utf-8") -> Records:
        """A record an entry of `example`."""
        yield from json_list(path, encoding, "example")

    def parse(self, record: Record, at: At) -> Iterable[Any]:
        """An item a question; a BrokenItem for each that is none."""
        text, answers = record.get("question"), record.get("answer")
        if not isinstance(text, str) or not text.strip():
            raise BrokenItem("question is not a text")
        if not isinstance(answers, list) or not answers:
            raise BrokenItem("no answer")
        subject = at.subject.partition("_")[2].removesuffix("_MCQs") if at.subject[:1].isdigit() else at.subject
        lang = at.lang or ("en" if subject.startswith("English") else self.lang)
        asked = _questions(clean(text, lang), len(answers))
        if asked is None:
            return [BrokenItem(UNSPLIT)] * len(answers)
        cluster = at.id if len(answers) > 1 else ""
        numbers = range(len(answers))
        return [_item(asked[n], answers[n], f"{at.id}.{n + 1}" if cluster else at.id, lang, subject, cluster)
                for n in numbers]  # fmt: skip


def _questions(text: str, count: int) -> list[Asked] | None:
    """As many questions as there are answers, or None."""
    runs = runs_of_options(text)
    if len(runs) == 1 and count > 1:  # one list of options for all blanks of a passage
        shared = split_questions(text, runs) or []
        numbers = [number for asked in shared for number in blank_numbers(asked.question, count)]
        return [Asked(f"{shared[0].question}\n{number}.", shared[0].choices) for number in numbers] or None
    if count == 1:
        runs = runs[-1:]
    return split_questions(text, runs) if len(runs) == count else None


def _item(asked: Asked, answer: object, id: str, lang: str, subject: str, cluster: str) -> AnyItem | BrokenItem:
    labels = "ABCDEFG"
    if all(choice.strip("$ .{}\\mathr") in ("", label) for choice, label in zip(asked.choices, labels, strict=False)):
        return BrokenItem("options are in a table or a picture")
    try:
        rights = label_indexes(answer)
        return checked(id, lang, asked.question, asked.choices, rights[0], answers=rights, subject=subject,
                       cluster=cluster)  # fmt: skip
    except BrokenItem as reason:
        return reason
