"""Benchmarks that publish the right option first, so that the item's id decides the order: BLiMP and TruthfulQA."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from evals.formats import At, Format
from evals.items import AnyItem, BrokenItem, mixed
from evals.records import Fields, Record, Records, csv_records, text

ASKED = {"en": "Which sentence is better English?", "zh": "哪个句子更通顺？"}


class Blimp(Format):
    """`{"sentence_good", "sentence_bad", "UID", "linguistics_term", "pairID"}`, a file a phenomenon.

    Asked as a choice between the sentences in an order that the id decides; `lm_eval: {form: sentences}` and the
    probes of suite `blimp` compare the sentences alone. The subject is the phenomenon (UID)."""

    name = "blimp"
    fields = Fields(subject="UID")
    a_file_a_subject = True

    def parse(self, record: Record, at: At) -> Iterable[AnyItem]:
        lang = at.lang or self.lang
        pair = {**record, "choices": [text(record, "sentence_good"), text(record, "sentence_bad")], "answer": 0}
        own_id = f"{record.get('UID') or at.subject or at.stem}/{record.get('pairID', at.number)}"
        return [mixed(self.item(pair, at, question=ASKED[lang], id=own_id))]


class TruthfulQAOne(Format):
    """MC1: the best answer among wrong ones. From TruthfulQA.csv (`Best Answer` and `Incorrect Answers`, apart by `;`)
    or Hugging Face's `multiple_choice` (`mc1_targets`). Both have the right one first: options are put in an order
    that the item's id decides."""

    name = "truthfulqa_mc1"
    suffixes = (".csv",)
    fields = Fields(subject="category")
    targets = "mc1_targets"

    def records(self, path: Path, encoding: str = "utf-8") -> Records:
        yield from csv_records(path, encoding, ("question", "best answer", "correct answers", "incorrect answers"))

    def parse(self, record: Record, at: At) -> Iterable[AnyItem]:
        right, wrong = self._targets(record[self.targets]) if self.targets in record else self._columns(record)
        if not right or not wrong:
            raise BrokenItem("no right or no wrong answer")
        return [mixed(self.item({**record, "choices": [*right, *wrong], "answer": [*range(len(right))]}, at))]

    def _columns(self, record: Record) -> tuple[list[str], list[str]]:
        return [text(record, "best answer")], split_answers(text(record, "incorrect answers"))

    def _targets(self, targets: Mapping[str, Sequence[Any]]) -> tuple[list[str], list[str]]:
        pairs = list(zip(targets["choices"], targets["labels"], strict=True))
        return [choice for choice, label in pairs if label == 1], [choice for choice, label in pairs if label == 0]


class TruthfulQAAll(TruthfulQAOne):
    """MC2: all true answers among all false ones (`Correct Answers`; `mc2_targets`)."""

    name = "truthfulqa_mc2"
    targets = "mc2_targets"

    def _columns(self, record: Record) -> tuple[list[str], list[str]]:
        return split_answers(text(record, "correct answers")), split_answers(text(record, "incorrect answers"))


def split_answers(joined: str) -> list[str]:
    """Split answers at `;`, each once."""
    return list(dict.fromkeys(part.strip() for part in joined.split(";") if part.strip()))
