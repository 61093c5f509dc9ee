"""HellaSwag (Zellers et al., 2019): how a scene goes on."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import ClassVar

from evals.formats.fields import checked, number_index, text
from evals.formats.format import At, Format, Record
from evals.items import AnyItem, BrokenItem


class HellaSwag(Format):
    """`{"activity_label", "ctx_a", "ctx_b", "endings": [...], "label"}`: the label is an index from 0. The question is
    the scene after its activity, WikiHow's marks in brackets taken out (as lm-eval does); scenes of one source are a
    cluster."""

    name: ClassVar[str] = "hellaswag"

    def parse(self, record: Record, at: At) -> Iterable[AnyItem]:
        """One item."""
        endings = record.get("endings")
        if not isinstance(endings, list) or not all(isinstance(ending, str) for ending in endings):
            raise BrokenItem("endings are not a list of texts")
        if record.get("label") in (None, ""):
            raise BrokenItem("no label: the test split is published without")
        answer = number_index(record["label"], at.index_from or 0)
        more = str(record.get("ctx_b") or "").capitalize()
        scene = f"{text(record, 'activity_label')}: {text(record, 'ctx_a')} {more}"
        choices = [without_marks(ending) for ending in endings]
        source = str(record.get("source_id") or "")
        item_id = at.id if record.get("ind") is None else f"{at.file}/{record['ind']}"
        return [checked(item_id, at.lang or self.lang, without_marks(scene), choices, answer, cluster=source)]


def without_marks(value: str) -> str:
    """Text without `[title]`, `[step]` and their like."""
    return re.sub(r"\[.*?\]", "", value.strip().replace(" [title]", ". ")).replace("  ", " ")
