"""C-Eval (Huang et al., 2023) and CMMLU (Li et al., 2023): CSV files with a header, and their Hugging Face datasets."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import ClassVar

from argosy.errors import InputError
from evals.formats.fields import checked, label_index, text
from evals.formats.format import At, Format, Record, Records, csv_records
from evals.items import AnyItem, BrokenItem


class CEval(Format):
    """Columns question, A, B, C, D, answer in any case and order, others ignored; a file a subject (`law_val.csv`)."""

    name: ClassVar[str] = "ceval"
    lang: ClassVar[str] = "zh"
    suffixes: ClassVar[tuple[str, ...]] = (".csv",)

    def records(self, path: Path, encoding: str = "utf-8") -> Records:
        """A record a row.

        Raises:
            InputError: no answers are there, as in C-Eval's test split, or another column is absent.
        """
        try:
            yield from csv_records(path, encoding, ("question", "a", "b", "answer"))
        except InputError as error:
            hint = "; C-Eval's test split is published without answers: take its val split"
            raise InputError(f"{error}{hint if 'answer' in str(error).partition(';')[0] else ''}") from None

    def parse(self, record: Record, at: At) -> Iterable[AnyItem]:
        """One item."""
        fields = {str(name).lower(): value for name, value in record.items()}
        question, answer = text(fields, "question"), text(fields, "answer")
        columns = [letter for letter in "abcdefgh" if str(fields.get(letter) or "").strip()]
        if columns != list("abcdefgh"[: len(columns)]):
            raise BrokenItem("an option is empty")
        choices = [str(fields[letter]) for letter in columns]
        right = label_index(answer)
        return [checked(at.id, at.lang or self.lang, question, choices, right, subject=at.subject)]


class Cmmlu(CEval):
    """CMMLU's columns are named as C-Eval's are, but for their case."""

    name: ClassVar[str] = "cmmlu"
