"""Options in an order that everybody would give them, whether or not they have seen the item."""

from __future__ import annotations

import re
from collections.abc import Sequence

_NUMBER = re.compile(r"[-\u2212]?\d[\d,]*(?:\.\d+)?|[-\u2212]?\.\d+")
_ROMAN = re.compile(r"^\(?([IVX]+)\b")
_ROMAN_VALUES = {"I": 1, "II": 2, "III": 3, "IV": 4, "V": 5, "VI": 6, "VII": 7, "VIII": 8, "IX": 9, "X": 10}
_USUAL = (("true", "false"), ("yes", "no"), ("correct", "incorrect"), ("right", "wrong"),
          ("对", "错"), ("正确", "错误"), ("是", "否"))  # fmt: skip


def natural_order(choices: Sequence[str]) -> bool:
    """Whether options are sorted numbers (up or down; also with one unit, or roman ones), or words that are usually
    said in this order (True, False; and their pairs: True, True; False, False; True, False; False, True)."""
    numbers = [value for choice in choices if (value := _number(choice)) is not None]
    if len(set(numbers)) == len(choices) > 1 and numbers in (sorted(numbers), sorted(numbers, reverse=True)):
        return True
    words = [tuple(re.split(r"[,;/，、\s]+", choice.strip().rstrip(".。").lower())) for choice in choices]
    if any([(first,), (second,)] == words[:2] for first, second in _USUAL):
        return True
    return len(words) == 4 and all(len(each) == 2 and set(each) <= {"true", "false"} for each in words)


def _number(text: str) -> float | None:
    """The number that an option begins with (after a currency, before a unit)."""
    roman = _ROMAN.match(text.strip())
    if roman:
        return _ROMAN_VALUES.get(roman[1])
    found = _NUMBER.search(text)
    if found is None or len(text[: found.start()].strip()) > 1:
        return None
    return float(found[0].replace(",", "").replace("\u2212", "-"))
