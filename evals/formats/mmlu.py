"""MMLU's CSV files (Hendrycks et al., 2021), and `cais/mmlu` of Hugging Face."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import ClassVar

from argosy.errors import InputError
from evals.formats.fields import checked, label_index, number_index
from evals.formats.format import At, Format, Record, Records, csv_rows
from evals.items import AnyItem, BrokenItem

_ROW = "row is not question, choices, letter or index"


class Mmlu(Format):
    """Rows of question, options and the right one's letter (or index from 0), a file a subject; no header, or one
    that begins with `question` and ends with `answer`. The subject is in the file's name (`anatomy_test.csv`)."""

    name: ClassVar[str] = "mmlu"
    suffixes: ClassVar[tuple[str, ...]] = (".csv",)

    def records(self, path: Path, encoding: str = "utf-8") -> Records:
        """A record a row."""
        for number, row in enumerate(csv_rows(path, encoding)):
            if isinstance(row, BrokenItem):
                yield row
                continue
            named = bool(row) and row[-1].strip().lower() == "answer"
            if number == 0 and named and row[0].strip().lower() != "question":
                raise InputError(f"{path} begins with {','.join(row)}: say its format (ceval, truthfulqa_mc1)")
            if number == 0 and named:
                yield {"header": True}
            elif len(row) < 4:
                yield BrokenItem(_ROW)
            else:
                yield {"question": row[0], "choices": row[1:-1], "answer": row[-1]}

    def parse(self, record: Record, at: At) -> Iterable[AnyItem]:
        """One item; none of a header."""
        if "header" in record:
            return []
        lacking = next((name for name in ("question", "choices", "answer") if name not in record), None)
        if lacking:
            raise BrokenItem(f"no {lacking}")
        subject = str(record.get("subject") or at.subject)
        answer = self._index(record["answer"], at)
        choices = list(record["choices"])
        return [checked(at.id, at.lang or self.lang, str(record["question"]), choices, answer, subject=subject)]

    def _index(self, value: object, at: At) -> int:
        digits = value.strip() if isinstance(value, str) else ""
        try:
            if not isinstance(value, str) or (digits.isascii() and digits.isdigit()):
                return number_index(value, at.index_from or 0)
            return label_index(value)
        except BrokenItem:
            raise BrokenItem(_ROW) from None
