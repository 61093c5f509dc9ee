"""PIQA (Bisk et al., 2020): two ways to reach a goal."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import ClassVar

from evals.formats.fields import checked, number_index, text
from evals.formats.format import At, Format, Record, Records
from evals.formats.labels_file import with_labels
from evals.items import AnyItem, BrokenItem


class Piqa(Format):
    """`{"goal", "sol1", "sol2"}`, with the right one's index from 0 in `valid-labels.lst` beside `valid.jsonl`, or in
    `label` (Hugging Face)."""

    name: ClassVar[str] = "piqa"

    def records(self, path: Path, encoding: str = "utf-8") -> Records:
        """A record a line."""
        yield from with_labels(path, encoding)

    def parse(self, record: Record, at: At) -> Iterable[AnyItem]:
        """One item."""
        if record.get("label") is None:
            raise BrokenItem("no label: put the file of labels beside it")
        answer = number_index(record["label"], at.index_from or 0)
        choices = [text(record, "sol1"), text(record, "sol2")]
        return [checked(str(record.get("id") or at.id), at.lang or self.lang, text(record, "goal"), choices, answer)]
