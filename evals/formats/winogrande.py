"""Winogrande (Sakaguchi et al., 2020): which of two names fills the gap."""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar

from evals.formats.fields import checked, number_index, text
from evals.formats.format import At, Format, Record
from evals.items import AnyItem, BrokenItem


class Winogrande(Format):
    """`{"qID", "sentence", "option1", "option2", "answer"}`: `_` in the sentence is the gap, the answer 1 or 2. The
    two sentences of a pair are a cluster (their qID is the same up to its last `-`)."""

    name: ClassVar[str] = "winogrande"

    def parse(self, record: Record, at: At) -> Iterable[AnyItem]:
        """One item."""
        sentence = text(record, "sentence")
        if sentence.count("_") != 1:
            raise BrokenItem("sentence has not one gap")
        choices = [text(record, "option1"), text(record, "option2")]
        answer = number_index(text(record, "answer"), 1 if at.index_from is None else at.index_from)
        item_id = str(record.get("qID") or at.id)
        pair = item_id.rpartition("-")[0] if record.get("qID") else ""
        return [checked(item_id, at.lang or self.lang, sentence, choices, answer, cluster=pair)]
