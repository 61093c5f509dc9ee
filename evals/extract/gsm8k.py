"""GSM8K's final number as lm-eval's task `gsm8k` reads it, by its two rules."""

from __future__ import annotations

import re
from typing import ClassVar

_STRICT = re.compile(r"#### (-?[0-9.,]+)")
_FLEXIBLE = re.compile(r"(-?[$0-9.,]{2,})|(-?[0-9]+)")


class Gsm8kStrict:
    """The first number behind "#### "."""

    name: ClassVar[str] = "gsm8k_strict"

    def extract(self, text: str, labels: str) -> str | None:
        """The number without `,` and `$`, or None."""
        found = _STRICT.search(text)
        return self.canonical(found[1]) if found else None

    def canonical(self, answer: str) -> str:
        """What lm-eval's exact_match compares: without `,`, `$` and a full stop at the end."""
        return re.sub(r"\.$", "", re.sub(r"[,$]", "", answer)).strip()

    def closing(self, answer: str, lang: str) -> str:
        """GSM8K's last line."""
        return f"#### {answer}"


class Gsm8kFlexible(Gsm8kStrict):
    """The last thing that looks like a number."""

    name: ClassVar[str] = "gsm8k_flexible"

    def extract(self, text: str, labels: str) -> str | None:
        """The number without `,` and `$`, or None."""
        found = [first or second for first, second in _FLEXIBLE.findall(text)]
        return self.canonical(found[-1]) if found else None
