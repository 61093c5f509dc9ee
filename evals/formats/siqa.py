"""Social IQa (Sap et al., 2019): what people do, want and feel."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import ClassVar

from evals.formats.fields import checked, label_index, number_index, text
from evals.formats.format import At, Format, Record, Records
from evals.formats.labels_file import with_labels
from evals.items import AnyItem, BrokenItem


class Siqa(Format):
    """`{"context", "question", "answerA", "answerB", "answerC"}`, with the right one's number from 1 in
    `dev-labels.lst` beside `dev.jsonl` or in `label` (Hugging Face), or its letter in `correct`. Questions about one
    context are a cluster."""

    name: ClassVar[str] = "siqa"

    def records(self, path: Path, encoding: str = "utf-8") -> Records:
        """A record a line."""
        yield from with_labels(path, encoding)

    def parse(self, record: Record, at: At) -> Iterable[AnyItem]:
        """One item."""
        context = text(record, "context")
        choices = [text(record, f"answer{letter}") for letter in "ABC"]
        question = f"{context} {text(record, 'question')}"
        item_id = str(record.get("id") or at.id)
        return [checked(item_id, at.lang or self.lang, question, choices, _answer(record, at), cluster=context)]


def _answer(record: Record, at: At) -> int:
    if record.get("label") is not None:
        return number_index(record["label"], 1 if at.index_from is None else at.index_from)
    if record.get("correct") is not None:
        return label_index(record["correct"])
    raise BrokenItem("no label: put the file of labels beside it")
