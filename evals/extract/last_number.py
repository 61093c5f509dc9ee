"""The last number of a worked solution."""

from __future__ import annotations

import re
from decimal import Decimal
from typing import ClassVar

# Thousands in groups of three; a sign that is no subtraction; a decimal part that is no sentence's end.
NUMBER = re.compile(r"(?<![\d.])(?:(?<![\w)])-\s?)?[$€£¥￥]?(?:\d{1,3}(?:,\d{3})+(?!\d)|\d+)(?:\.\d+)?|(?<![\d.])\.\d+")
_FINAL = re.compile(r"####\s*([^\n]*)")


class LastNumber:
    """What stands behind "####" (GSM8K's own mark), else the last number: "#### 18", "so she has 1,234.50 dollars."."""

    name: ClassVar[str] = "last_number"

    def extract(self, text: str, labels: str) -> str | None:
        """A number without separators and units, or None."""
        marked = _FINAL.search(text)
        found = NUMBER.findall(marked.group(1)) if marked else []
        return plain(found[0]) if found else self._last(text)

    def _last(self, text: str) -> str | None:
        found = NUMBER.findall(text)
        return plain(found[-1]) if found else None

    def canonical(self, answer: str) -> str:
        """The number; a text that is none is as it is."""
        found = NUMBER.search(answer)
        return plain(found.group()) if found else answer.strip()

    def closing(self, answer: str, lang: str) -> str:
        """GSM8K's mark."""
        return f"#### {answer}"


def plain(number: str) -> str:
    """A number without separators, currency and zeros that say nothing: "$1,234.50" is "1234.5"."""
    value = Decimal(re.sub(r"[,$€£¥￥\s]", "", number)).normalize()
    return f"{value:f}".replace("-0", "0") if value == 0 else f"{value:f}"
