"""Numbers in texts, and calculations of them, without rounding."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

WORDS = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve")
NUMBER = re.compile(r"\d{1,3}(?:,\d{3})+(?![\d])(?:\.\d+)?|\d+\.\d+|(?<!\d)\.\d+|\d+")
_MOST_PLACES = 4
_TOKEN = re.compile(rf"({NUMBER.pattern})|([-–+*/()×÷%]|(?<![A-Za-z])x(?![A-Za-z]))")


@dataclass(frozen=True)
class Written:
    """A number as it stands in a text."""

    start: int
    end: int
    text: str
    value: Fraction

    def like(self, value: Fraction) -> str | None:
        """Another value written the same way (words, separators, decimals), or None where it cannot be."""
        if self.text.lower() in WORDS:
            if value.denominator != 1 or not 0 <= value < len(WORDS):
                return None
            word = WORDS[int(value)]
            return word.capitalize() if self.text[0].isupper() else word
        places = len(self.text.partition(".")[2])
        tries = range(places, _MOST_PLACES + 1) if places else (0,)
        style = {"comma": "," in self.text, "bare": self.text.startswith(".")}
        return next((text for n in tries if (text := written(value, n, **style)) is not None), None)


def written(value: Fraction, places: int = 0, *, comma: bool = False, bare: bool = False) -> str | None:
    """Digits of a value that is not negative, with `places` decimals; without them where it is whole and had none."""
    scaled = value * 10**places
    if value < 0 or scaled.denominator != 1:
        return None
    whole, rest = divmod(int(scaled), 10**places)
    digits = f"{whole:,}" if comma else str(whole)
    if not places:
        return digits
    return f"{'' if bare and not whole else digits}.{rest:0{places}d}"


def value_of(text: str) -> Fraction:
    """The value of digits."""
    return Fraction(text.replace(",", "") if text[0] != "." else f"0{text}")


@dataclass(frozen=True)
class Calculation:
    """A chain of numbers and signs such as `16-3-4`, and what it gives.

    Attributes:
        tokens: numbers and signs, in their order; places are those in the text that it was found in.
        result: what the text says it gives.
    """

    tokens: tuple[Written | str, ...]
    result: Written

    @property
    def operands(self) -> list[Written]:
        """Its numbers."""
        return [token for token in self.tokens if isinstance(token, Written)]

    @property
    def exact(self) -> bool:
        """Whether it gives what the text says."""
        return self.value([operand.value for operand in self.operands]) == self.result.value

    def value(self, values: Sequence[Fraction]) -> Fraction | None:
        """What it gives with these operands; None where that is a division by zero or no calculation."""
        numbers = iter(values)
        tokens = [next(numbers) if isinstance(token, Written) else token for token in self.tokens]
        try:
            found, end = _sum(tokens, 0)
        except (ZeroDivisionError, IndexError, TypeError):
            return None
        return found if end == len(tokens) else None


def calculation(text: str, at: int = 0) -> Calculation | None:
    """`48/2=24`, as between GSM8K's << and >>, or `100% - 40% = 60%`; None where it cannot be read.

    Words and currency are passed over. Percentages are hundredths, but not where the result is one. `at`: where the
    text begins.
    """
    left, equals, right = text.rpartition("=")
    result = NUMBER.search(right)
    if not equals or result is None or right[: result.start()].strip(" $"):
        return None
    whole = right[result.end() :].lstrip().startswith("%")
    tokens: list[Written | str] = []
    for match in _TOKEN.finditer(left):
        if match[1]:
            tokens.append(_at(match[1], at + match.start(1)))
        elif match[2] != "%" or not whole:
            tokens.append({"–": "-", "×": "*", "x": "*", "÷": "/"}.get(match[2], match[2]))
    return Calculation(tuple(tokens), _at(result.group(), at + len(left) + 1 + result.start()))


def _at(text: str, start: int) -> Written:
    return Written(start, start + len(text), text, value_of(text))


_Tokens = list[Fraction | str]


def _sum(tokens: _Tokens, at: int) -> tuple[Fraction, int]:
    value, at = _product(tokens, at)
    while at < len(tokens) and tokens[at] in ("+", "-"):
        right, end = _product(tokens, at + 1)
        value = value + right if tokens[at] == "+" else value - right
        at = end
    return value, at


def _product(tokens: _Tokens, at: int) -> tuple[Fraction, int]:
    value, at = _factor(tokens, at)
    while at < len(tokens) and tokens[at] in ("*", "/"):
        right, end = _factor(tokens, at + 1)
        value = value / right if tokens[at] == "/" else value * right
        at = end
    return value, at


def _factor(tokens: _Tokens, at: int) -> tuple[Fraction, int]:
    token = tokens[at]
    if token == "-":
        value, end = _factor(tokens, at + 1)
        return -value, end
    if token == "(":
        value, end = _sum(tokens, at + 1)
        if tokens[end] != ")":
            raise IndexError
        end += 1
    elif isinstance(token, Fraction):
        value, end = token, at + 1
    else:
        raise IndexError
    if end < len(tokens) and tokens[end] == "%":
        return value / 100, end + 1
    return value, end
