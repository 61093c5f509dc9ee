"""Rules for numbers: the last or the first of a text, and GSM8K's as lm-eval reads it."""

import re
from decimal import Decimal

from evals.extract import Rule

# Thousands in groups of three; a sign that is no subtraction; a decimal part that is no sentence's end.
NUMBER = re.compile(r"(?<![\d.])(?:(?<![\w)])-\s?)?[$€£¥￥]?(?:\d{1,3}(?:,\d{3})+(?!\d)|\d+)(?:\.\d+)?|(?<![\d.])\.\d+")
_FINAL = re.compile(r"####\s*([^\n]*)")


class LastNumber(Rule):
    """The number behind "####" (GSM8K's own mark), else the last one: "#### 18", "so she has 1,234.50 dollars."."""

    name = "last_number"

    def extract(self, text: str, labels: str) -> str | None:
        """Find a number without separators and units, or None."""
        marked = _FINAL.search(text)
        found = NUMBER.findall(marked.group(1)) if marked else []
        return plain(found[0]) if found else self._last(text)

    def _last(self, text: str) -> str | None:
        found = NUMBER.findall(text)
        return plain(found[-1]) if found else None

    def canonical(self, answer: str) -> str:
        """Write the number; a text that is none stays as it is."""
        found = NUMBER.search(answer)
        return plain(found.group()) if found else answer.strip()

    def closing(self, answer: str, lang: str) -> str:
        """Write GSM8K's mark before the answer."""
        return f"#### {answer}"


def plain(number: str) -> str:
    """Write a number without separators, currency and zeros that say nothing: "$1,234.50" is "1234.5"."""
    value = Decimal(re.sub(r"[,$€£¥￥\s]", "", number)).normalize()
    return f"{value:f}".replace("-0", "0") if value == 0 else f"{value:f}"


class Number(LastNumber):
    """The first number: "18 eggs, not 20" is 18. For answers without a worked solution."""

    name = "number"

    def extract(self, text: str, labels: str) -> str | None:
        """Find a number without separators and units, or None."""
        found = NUMBER.search(text)
        return plain(found.group()) if found else None

    def closing(self, answer: str, lang: str) -> str:
        """Write the number alone."""
        return answer


_STRICT = re.compile(r"#### (-?[0-9.,]+)")
_FLEXIBLE = re.compile(r"(-?[$0-9.,]{2,})|(-?[0-9]+)")


class Gsm8kStrict(Rule):
    """The first number behind "#### "."""

    name = "gsm8k_strict"

    def extract(self, text: str, labels: str) -> str | None:
        """Find the number without `,` and `$`, or None."""
        found = _STRICT.search(text)
        return self.canonical(found[1]) if found else None

    def canonical(self, answer: str) -> str:
        """Take off `,`, `$` and a full stop at the end, as lm-eval's exact_match does."""
        return re.sub(r"\.$", "", re.sub(r"[,$]", "", answer)).strip()

    def closing(self, answer: str, lang: str) -> str:
        """Write GSM8K's last line."""
        return f"#### {answer}"


class Gsm8kFlexible(Gsm8kStrict):
    """The last thing that looks like a number."""

    name = "gsm8k_flexible"

    def extract(self, text: str, labels: str) -> str | None:
        """Find the number without `,` and `$`, or None."""
        found = [first or second for first, second in _FLEXIBLE.findall(text)]
        return self.canonical(found[-1]) if found else None
