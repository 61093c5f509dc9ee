"""GSM8K (Cobbe et al., 2021): word problems whose answer is a number that is generated."""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar

from evals.formats.fields import text
from evals.formats.format import At, Format, Record
from evals.items import AnyItem, BrokenItem, OpenItem


class Gsm8k(Format):
    """`{"question", "answer"}`: the answer is the solution, with calculations in `<<...>>`, and a last line
    `#### 18`."""

    name: ClassVar[str] = "gsm8k"

    def parse(self, record: Record, at: At) -> Iterable[AnyItem]:
        """One open item."""
        solution, mark, answer = text(record, "answer").rpartition("####")
        number = answer.strip().replace(",", "")
        if not mark or not number:
            raise BrokenItem("answer has no line `#### number`")
        return [OpenItem(at.id, at.lang or self.lang, text(record, "question"), number, solution.strip())]
