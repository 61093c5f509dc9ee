"""Numbers in texts, and calculations of them, without rounding."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from operator import add, mul, sub, truediv

WORDS = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve")
NUMBER = re.compile(r"\d{1,3}(?:,\d{3})+(?![\d])(?:\.\d+)?|\d+\.\d+|(?<!\d)\.\d+|\d+")
_MOST_PLACES = 4
_SIGNS = {"+": (1, add), "-": (1, sub), "*": (2, mul), "/": (2, truediv)}  # how tightly each binds
_TOKEN = re.compile(rf"({NUMBER.pattern})|([-–+*/()×÷%]|(?<![A-Za-z])x(?![A-Za-z]))")


@dataclass(frozen=True)
class Written:
    """A number as it stands in a text."""

    start: int
    end: int
    text: str
    value: Fraction

    def like(self, value: Fraction) -> str | None:
        """Write another value the same way (words, separators, decimals); None where that is impossible."""
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
    """Write the digits of a value that is not negative, with `places` decimals (0: of a whole number)."""
    scaled = value * 10**places
    if value < 0 or scaled.denominator != 1:
        return None
    whole, rest = divmod(int(scaled), 10**places)
    digits = f"{whole:,}" if comma else str(whole)
    if not places:
        return digits
    return f"{'' if bare and not whole else digits}.{rest:0{places}d}"


def value_of(text: str) -> Fraction:
    """Read the value of digits."""
    return Fraction(text.replace(",", "") if text[0] != "." else f"0{text}")


@dataclass(frozen=True)
class Calculation:
    """A chain of numbers and signs such as `16-3-4`, and its result.

    Attributes:
        tokens: numbers and signs, in their order, with their places in the text.
        result: the number that the text states as its result."""

    tokens: tuple[Written | str, ...]
    result: Written

    @property
    def operands(self) -> list[Written]:
        """Its numbers."""
        return [token for token in self.tokens if isinstance(token, Written)]

    @property
    def exact(self) -> bool:
        """Whether the text states the right result."""
        return self.value([operand.value for operand in self.operands]) == self.result.value

    def value(self, values: Sequence[Fraction]) -> Fraction | None:
        """Calculate it with these operands; None where that is a division by zero or no calculation."""
        numbers = iter(values)
        tokens = [next(numbers) if isinstance(token, Written) else token for token in self.tokens]
        try:
            found, end = _evaluate(tokens)
        except (ZeroDivisionError, IndexError, TypeError):
            return None
        return found if end == len(tokens) else None


def calculation(text: str, at: int = 0) -> Calculation | None:
    """Read `48/2=24`, as between GSM8K's << and >>, or `100% - 40% = 60%`; None where it cannot be read.

    Words and currency are passed over. Percentages are hundredths, but not where the result is one. `at`: where the
    text begins."""
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


def _evaluate(tokens: Sequence[Fraction | str], at: int = 0, least: int = 1) -> tuple[Fraction, int]:
    """Calculate from `at` on, as long as signs bind at least as tightly as `least`; the place of the end too."""
    token = tokens[at]
    if token == "-":
        value, at = _evaluate(tokens, at + 1, 3)
        value = -value
    elif token == "(":
        value, at = _evaluate(tokens, at + 1)
        if tokens[at] != ")":
            raise IndexError
        at += 1
    elif isinstance(token, Fraction):
        value, at = token, at + 1
    else:
        raise IndexError
    if token != "-" and at < len(tokens) and tokens[at] == "%":
        value, at = value / 100, at + 1
    while at < len(tokens) and (found := _SIGNS.get(str(tokens[at]), (0, add)))[0] >= least:
        right, at = _evaluate(tokens, at + 1, found[0] + 1)
        value = found[1](value, right)
    return value, at
