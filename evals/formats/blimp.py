"""BLiMP (Warstadt et al., 2020): a sentence that is acceptable and one that is not."""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar

from evals.formats.fields import checked, mixed, text
from evals.formats.format import At, Format, Record
from evals.items import AnyItem

ASKED = {"en": "Which sentence is better English?", "zh": "哪个句子更通顺？"}


class Blimp(Format):
    """`{"sentence_good", "sentence_bad", "UID", "linguistics_term", "pairID"}`, a file a phenomenon.

    Asked as a choice between the sentences in an order that the id decides; `lm_eval: {form: sentences}` and the
    probes of suite `blimp` compare the sentences alone. The subject is the phenomenon (UID)."""

    name: ClassVar[str] = "blimp"

    def parse(self, record: Record, at: At) -> Iterable[AnyItem]:
        """One item."""
        sentences = [text(record, "sentence_good"), text(record, "sentence_bad")]
        lang, subject = at.lang or self.lang, str(record.get("UID") or at.subject)
        return [mixed(checked(f"{subject}/{record.get('pairID', at.number)}", lang, ASKED[lang], sentences, 0,
                              subject=subject))]  # fmt: skip
