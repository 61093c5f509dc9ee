"""TruthfulQA (Lin et al., 2022): what is widely believed against what is true."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

from evals.formats.fields import checked, mixed, text
from evals.formats.format import At, Format, Record, Records, csv_records
from evals.items import AnyItem, BrokenItem


class TruthfulQAOne(Format):
    """MC1: the best answer among wrong ones. From TruthfulQA.csv (`Best Answer` and `Incorrect Answers`, apart by `;`)
    or Hugging Face's `multiple_choice` (`mc1_targets`). Both have the right one first: options are put in an order
    that the item's id decides."""

    name: ClassVar[str] = "truthfulqa_mc1"
    suffixes: ClassVar[tuple[str, ...]] = (".csv",)
    targets: ClassVar[str] = "mc1_targets"

    def records(self, path: Path, encoding: str = "utf-8") -> Records:
        """A record a row."""
        yield from csv_records(path, encoding, ("question", "best answer", "correct answers", "incorrect answers"))

    def parse(self, record: Record, at: At) -> Iterable[AnyItem]:
        """One item."""
        right, wrong = self._targets(record[self.targets]) if self.targets in record else self._columns(record)
        if not right or not wrong:
            raise BrokenItem("no right or no wrong answer")
        choices, answers = [*right, *wrong], tuple(range(len(right)))
        subject = str(record.get("category") or "")
        question = text(record, "question")
        item = checked(at.id, at.lang or self.lang, question, choices, 0, answers=answers, subject=subject)
        return [mixed(item)]

    def _columns(self, record: Record) -> tuple[list[str], list[str]]:
        return [text(record, "best answer")], split_answers(text(record, "incorrect answers"))

    def _targets(self, targets: Mapping[str, Sequence[Any]]) -> tuple[list[str], list[str]]:
        pairs = list(zip(targets["choices"], targets["labels"], strict=True))
        return [choice for choice, label in pairs if label == 1], [choice for choice, label in pairs if label == 0]


class TruthfulQAAll(TruthfulQAOne):
    """MC2: all true answers among all false ones (`Correct Answers`; `mc2_targets`)."""

    name: ClassVar[str] = "truthfulqa_mc2"
    targets: ClassVar[str] = "mc2_targets"

    def _columns(self, record: Record) -> tuple[list[str], list[str]]:
        return split_answers(text(record, "correct answers")), split_answers(text(record, "incorrect answers"))


def split_answers(joined: str) -> list[str]:
    """Answers apart by `;`, each once."""
    return list(dict.fromkeys(part.strip() for part in joined.split(";") if part.strip()))
