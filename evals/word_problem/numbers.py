"""Numbers in texts, calculations of them without rounding, and which numbers of a question may be others."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations
from operator import add, mul, sub, truediv
from pathlib import Path

import yaml

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
    return f"{'' if bare and not whole else digits}.{rest:0{places}d}" if places else digits


def value_of(text: str) -> Fraction:
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


NUMBER_WORD = re.compile(rf"(?<!ty-)\b(?:{'|'.join(WORDS[2:])})\b", re.IGNORECASE)
_FRACTION = re.compile(r"(?:(\d+)[\s-]+(?:and\s+)?)?(?<![\d.,/])(\d+)\s*/\s*(\d+)(?![\d/])")
_WORDS = yaml.safe_load(Path(__file__).with_suffix(".yaml").read_text(encoding="utf-8"))
_FIXED_AFTER = re.compile("|".join(_WORDS["after"]), re.IGNORECASE)
_FIXED_BEFORE = re.compile(rf"(?:{'|'.join(_WORDS['before'])})\s*$", re.IGNORECASE)
_TENS = {f"{word}teen": 13 + n for n, word in enumerate(("thir", "four", "fif", "six", "seven", "eigh", "nine"))}
_TY = ("twen", "thir", "for", "fif", "six", "seven", "eigh", "nine")
_TENS |= {f"{word}ty": 20 + 10 * n for n, word in enumerate(_TY)}
_TEN = re.compile(rf"\b({'|'.join(_TENS)})(?:-({'|'.join(WORDS[1:10])}))?\b", re.IGNORECASE)
_IMPLIED_BY = [
    ([re.compile(rf"\b(?:{words})\b", re.IGNORECASE) for words in all_of], [Fraction(v) for v in values.split()])
    for all_of, values in _WORDS["implied"]]
_TIMES_BY = {Fraction(value): re.compile(rf"\b(?:{words})\b", re.IGNORECASE)
             for value, words in _WORDS["times"].items()}


@dataclass(frozen=True)
class QuestionNumber:
    """A number of a question.

    Attributes:
        at: where it stands, how it is written, and its value.
        percent: whether it is one of a hundred.
        fixed: whether it must stay: a date, part of a fraction, an ordinal, ...
        unit: the word behind it, in lower case.
        article: whether "a" stands before it, which an eight would make "an"."""

    at: Written
    percent: bool
    fixed: bool
    unit: str
    article: bool = False

    @property
    def value(self) -> Fraction:
        return self.at.value

    def fits(self, value: Fraction) -> bool:
        """Tell whether a value can be written in its place."""
        text = self.at.like(value)
        return text is not None and not (self.article and re.match(r"8|11(?!\d)|18(?!\d)|eight|eleven", text))


def numbers(question: str) -> list[QuestionNumber]:
    """Find the question's numbers in their order: digits, and words from two to twelve."""
    fractions = [match.span() for match in _FRACTION.finditer(question)]
    found = []
    for at in written_numbers(question):
        after, before = question[at.end : at.end + 24], question[max(0, at.start - 16) : at.start]
        inside = any(start <= at.start < end for start, end in fractions)
        year = at.value.denominator == 1 and 1900 <= at.value < 2100 and "," not in at.text and before[-1:] != "$"
        glued = re.match(r"(?!(?:kg|g|km|cm|m|mm|mph|lbs?|oz|ml|L|ft|k)\b)[A-Za-z]", after) is not None
        named = _FIXED_AFTER.match(after) or _FIXED_BEFORE.search(before)
        fixed = inside or year or glued or at.value <= 1 or bool(named)
        unit = re.match(r"[\s-]*([A-Za-z]+)", after)
        percent = re.match(r"\s*(?:%|percent)", after) is not None
        article = re.search(r"\ba\s+\$?$", before, re.IGNORECASE) is not None
        found.append(QuestionNumber(at, percent, fixed, unit.group(1).lower() if unit else "", article))
    return found


def written_numbers(text: str) -> list[Written]:
    """Find all numbers of a text, digits and words from two to twelve, in their order."""
    digits = [(match, value_of(match.group())) for match in NUMBER.finditer(text)]
    words = [(match, Fraction(WORDS.index(match.group().lower()))) for match in NUMBER_WORD.finditer(text)]
    found = [Written(match.start(), match.end(), match.group(), value) for match, value in digits + words]
    return sorted(found, key=lambda one: one.start)


def implied(text: str) -> set[Fraction]:
    """Find the values that a text gives to a calculation without a number that could be another: half, twice, a week's
    days, the parts of fractions."""
    found = {Fraction(1)}
    for all_of, values in _IMPLIED_BY:
        if all(words.search(text) for words in all_of):
            found.update(values)
    if "%" in text or "$" in text:
        found.add(Fraction(100))
    found |= _tens(text)
    for match in _FRACTION.finditer(text):
        whole, top, bottom = (int(part or 0) for part in match.groups())
        if top < bottom <= 100:  # a share, no division
            share = Fraction(top, bottom)
            found |= {Fraction(top), Fraction(bottom), Fraction(whole), share, share + whole, 1 - share}
            found.add(Fraction(bottom - top))
    return found - {Fraction(0)}


def _tens(text: str) -> set[Fraction]:
    """Read the numbers above twelve that are written as words."""
    found = _TEN.finditer(text)
    return {Fraction(_TENS[match[1].lower()] + WORDS.index((match[2] or "zero").lower())) for match in found}


def spelled_out(text: str) -> set[Fraction]:
    """Find the numbers that a text says as "double", "a third", "twenty": they cannot be others there."""
    return {value for value, words in _TIMES_BY.items() if words.search(text)} | _tens(text)


def sums_of_others(numbers: Sequence[QuestionNumber], unused: Iterable[int]) -> set[int]:
    """Find numbers that with others make up one outside all calculations ("16 people: 10 want ..., 6 want ...")."""
    found: set[int] = set()
    for n in unused:
        others = [m for m in range(len(numbers)) if m != n and not numbers[m].percent]
        for size in (2, 3):
            for some in combinations(others, size):
                if sum(numbers[m].value for m in some) == numbers[n].value:
                    found |= {n, *some}
    return found
