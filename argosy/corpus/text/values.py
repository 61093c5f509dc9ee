r"""Values of final answers: numbers as people and LaTeX write them, exact where they can be.

"1,234.50", "1.234,5", "$18", "3/4", "2 1/2", "\frac{3}{4}", "50%", "1.5\times10^{3}", "2\sqrt{3}", "\pi/2",
"３．５", "1.2万" are numbers. Nothing of a text is run: its syntax tree is read."""

import ast
import math
import operator
import re
import unicodedata
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise

from argosy.corpus.text.numerals import AMBIGUOUS, even

_LONGEST = 200  # characters of an expression
_BITS = 4096  # of an exact power
_PLACES = 30  # decimals that are written
_EXACT = 1e-9  # relative difference of numbers that are none that can be written exactly
_FRACTION = r"\\[dtc]?frac\s*(?:\{[^{}]*\}|\d)\s*(?:\{[^{}]*\}|\d)"
_BRACED = r"(?:\{[^{}]*(?:\{[^{}]*\}[^{}]*)*\}|\d)"  # of two levels
_DIGITS = r"(?:\d+(?:\.\d+)?|\.\d+)"
_ALL_DIGITS = rf"(?<!\d)(?<!\d\.){_DIGITS}"  # from their first: a search that begins at each of them is quadratic
_POWER = r"\^(?:\{\s*[-+]?\d+\s*\}|[-+]?\d+)"
_TIMES = {"hundred": 10**2, "thousand": 10**3, "million": 10**6, "billion": 10**9, "trillion": 10**12,
          "百": 10**2, "千": 10**3, "万": 10**4, "亿": 10**8}  # fmt: skip
_MULTIPLE = rf"\s?(?:[百千万亿]+(?!分)|(?:{'|'.join(list(_TIMES)[:5])})\b)"
_MULTIPLIED = re.compile(rf"(?<=\d){_MULTIPLE}")
_FALLING = rf"{_ALL_DIGITS}\s?[百千万亿]+(?=\.?\d)(?:{_DIGITS}\s?[百千万亿]+)*(?:{_DIGITS})?"  # 3亿5千万
_PART = re.compile(rf"({_DIGITS})\s?([百千万亿]*)")
# A sign that is no subtraction, no hyphen and no bullet; no letter and no "^" before the number.
_SIGN = r"(?:(?<![\w)\]}])-(?=[\d.$€£¥\\])|(?:(?<=[=:(])|(?<=\bis))[ \t]*-[ \t]?)"
_BEGIN = r"(?:(?<![A-Za-z_\d.^])|(?<=USD)|(?<=RMB)|(?<=CNY)|(?<=EUR)|(?<=GBP))"
_AMOUNT = re.compile(
    rf"{AMBIGUOUS}[^{AMBIGUOUS}]*{AMBIGUOUS}|{_SIGN}?(?:[$€£¥]\s?-?)?{_BEGIN}(?:{_FRACTION}|{_FALLING}"
    rf"|{_DIGITS}(?:\s?{_FRACTION}|[eE][-+]?\d+(?![\w.])|\s?[×*]\s?10{_POWER}|{_POWER}|\s+\d+\s?/\s?\d+(?![\d./])|\s?/\s?{_DIGITS})?)"
    rf"(?:\s?%|{_MULTIPLE})?")
_MACRO = re.compile(r"\\(?:text|mathrm|mbox|textbf|mathbf|mathit)\s*\{([^{}]*)\}")
_EXPONENT = re.compile(r"(?<=[A-Za-z\]}])\s*\^(?:\{[^{}]*\}|-?\d+)")  # of a letter or a unit, no number of the text
# Numbers of which a part would be another number: roots, multiples of pi, fractions of such, powers of brackets and of
# powers, periods, ranges, tolerances, shares of a thousand, hexadecimal digits, 5k, 2x.
_TIMES_OF = rf"(?:{_ALL_DIGITS}\s{{0,3}}\*?\s{{0,3}})"
_OVER = rf"(?:\s?/\s?{_DIGITS})?"
_WHOLE = re.compile(
    rf"{AMBIGUOUS}[^{AMBIGUOUS}]*{AMBIGUOUS}|{_SIGN}?(?:{_TIMES_OF}?\\[dtc]?frac\s*(?!(?:\{{[\d.\s-]*\}}|\d)\s*(?:\{{[\d.\s-]*\}}|\d))"
    rf"{_BRACED}\s*{_BRACED}"
    rf"|{_TIMES_OF}?(?:\\sqrt\s*(?:\[\d+\])?\s*(?:\{{[^{{}}]*\}}|\d)|√\s*\(?\d+\)?|sqrt\s*\(\s*\d+\s*\)){_OVER}"
    rf"|{_TIMES_OF}(?:\\pi(?![A-Za-z])|π|pi\b){_OVER})"
    rf"|\([^()]*\)\s*{_POWER}|{_ALL_DIGITS}\^\{{[^{{}}]*\{{[^{{}}]*\}}[^{{}}]*\}}|{_ALL_DIGITS}(?:{_POWER}){{2,3}}"
    rf"|{_ALL_DIGITS}\.?\\(?:overline|bar|dot)\s*\{{\d+\}}|{_ALL_DIGITS}\.?\(\d+\)|(?:±|\\pm(?![A-Za-z])|\+/-)\s?{_DIGITS}"
    rf"|{_ALL_DIGITS}\s?[‰‱]|(?<![\w.])0[xX][0-9a-fA-F]+|{_ALL_DIGITS}%?[-~][$]?{_DIGITS}(?:/\d+)?%?"
    rf"|{_BEGIN}{_DIGITS}[kKMBxyznbpqrwuvi](?![A-Za-z\d])")
_RANGE = re.compile(r"(?<![\^{(*/eE])\d%?[-~][$]?\.?\d")
_WORDS = r"(?:[^\W\d_]{2,}|[^\W\d_\x00-\x7f])"
_UNITS = re.compile(
    rf"(?<=[\d)%])(?:\s*[\u3400-\u9fff]|\s+{_WORDS}|\s*(?:[ckm]m|[km]?g|m?l)\b)"
    r"(?:[\s./-]|[^\W\d]|(?<=[^\W\d_])\d)*?"  # of several words, and of m2, but of no second number
    rf"(?:\^\{{?\d\}}?)?$")
_REPLACED = tuple((re.compile(found), put) for found, put in (
    (r"^\s*(?:USD|RMB|CNY|EUR|GBP)\s*(?=[-\d.])|\\?\$|[€£¥]|\^\{?\\circ\}?|°", ""),
    (r"\\(?:text|mathrm|mbox|textbf|mathbf|mathit)\s*\{\s*([-\d.,]+)\s*\}", r"\1"),
    (r"\\(?:text|mathrm|mbox|textbf|mathbf|mathit)\s*\{[^{}]*\}(?:\^\{?\d\}?)?", " "),
    (r"×", "*"), (r"\\div|÷", "/"), (r"^\s*\+", ""),
    (r"\\[dtc]frac", r"\\frac"), (r"\\frac\s*(\d)\s*(\d)", r"\\frac{\1}{\2}"), (r"\\frac\s*(\d)\s*\{", r"\\frac{\1}{"),
    (r"\\frac\s*(\{[^{}]*\})\s*(\d)", r"\\frac\1{\2}"), (r"\\sqrt\s*(\d)", r"\\sqrt{\1}"),
    (r"(\d+)\s*\\frac\{(\d+)\}\{(\d+)\}", r"(\1+\2/\3)"), (r"(?<![\d.])(\d+)\s+(\d+)\s*/\s*(\d+)", r"(\1+\2/\3)"),
    *((rf"(?<=[\d.])\s*{word}{'' if word > '~' else chr(92) + 'b'}", f"*{times}") for word, times in _TIMES.items()),
))  # fmt: skip
_NESTED = tuple((re.compile(found), put) for found, put in (
    (r"\\frac\s*\{([^{}]*)\}\s*\{([^{}]*)\}", r"((\1)/(\2))"), (r"\\sqrt\s*\{([^{}]*)\}", r"sqrt(\1)"),
    (r"\^\s*\{([^{}]*)\}", r"**(\1)")))  # fmt: skip
_LAST = tuple((re.compile(found), put) for found, put in (
    (r"\\pi(?![A-Za-z])|π", "pi"), (r"\^", "**"),
    (r"(?<=[\d)])\s*(?=sqrt|pi\b|\()", "*"), (r"(?<![\w.])0+(?=\d)", "")))  # fmt: skip
_OPERATORS = {ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.truediv}
_MARKS = re.compile(r"\\(?:text|mathrm|mbox|textbf|mathbf)\s*\{([^{}]*)\}|\$|\\[,;: ]|\*\*")
_OR = r"[\s},]*(?:[^\W\d_]+\s+){0,3}?(?:or|或者?|%s)\s*(?:[a-z]\s*=\s*)?[-+]?(?:\\[dt]?frac\s*\{?)?\.?\d"
_AND = _OR % r"and|[和与]"
_SEVERAL = re.compile(rf"\d{_AND}", re.IGNORECASE)
_FIRST_OF_SEVERAL = re.compile(rf"\D*\d(?:[.,/]?\d)*[./]?%?{_AND}", re.IGNORECASE)
_LAST_OF_SEVERAL = re.compile(rf"\d%?{_OR % '或是'}(?:[.,/]?\d)*\D*$", re.IGNORECASE)
Exact = Fraction | float


@dataclass(frozen=True)
class Value:
    """A number; `percent`: it was written with %, and is a hundredth of what stood before that; `times`: what its last
    word multiplies it by (5 million), which is in it."""

    number: Exact
    percent: bool = False
    times: int = 1

    def equals(self, other: "Value", tolerance: float) -> bool:
        """Tell whether they are equal: whole numbers exactly, others within a relative `tolerance`. What one of the
        two alone has, a percent sign or such a word, may be forgotten at the other: 50 is 50%, and so is 0.5."""
        return any(_close(one, two, tolerance) for one in self._readings(other) for two in other._readings(self))

    def _readings(self, other: "Value") -> list[Exact]:
        percent = [self.number * 100] if self.percent and not other.percent else []
        return [self.number, *percent, *([self.number / self.times] if self.times > 1 == other.times else [])]


def _close(one: Exact, other: Exact, tolerance: float) -> bool:
    if isinstance(one, Fraction) and isinstance(other, Fraction):
        if one == other or one.denominator == other.denominator == 1:
            return one == other
        return abs(one - other) <= Fraction(tolerance) * abs(other)
    return math.isclose(one, other, rel_tol=tolerance, abs_tol=1e-12)


def value_of(text: str) -> Value | None:
    """Return the number that a text is, with its unit or currency, and behind the last "=" where it has one; None: it
    is none, or several ("5 or 6")."""
    if _SEVERAL.search(_unwrapped(text)):
        return None
    bare = _plain(text)
    percent = bare.endswith("%")
    try:
        number = _evaluate(ast.parse(bare.rstrip("%").strip(), mode="eval").body)
    except (SyntaxError, ValueError, ArithmeticError, RecursionError, MemoryError):
        return None
    return Value(number / 100 if percent else number, percent, _times(text))


def _times(text: str) -> int:
    found = _MULTIPLIED.findall(re.sub(_FALLING, "", even(text)))
    return math.prod(_TIMES[word] for word in re.findall("|".join(_TIMES), found[-1])) if found else 1


def begins_with_several(text: str) -> bool:
    """Tell whether the first number of a text is one of several that it leaves open or lists: "5 or 6", "3 和 4"."""
    return bool(_FIRST_OF_SEVERAL.match(_unwrapped(text)))


def ends_with_alternatives(text: str) -> bool:
    """Tell whether the last number of a text is one of several that it leaves open: "so it is 5 or 6"."""
    return bool(_LAST_OF_SEVERAL.search(_unwrapped(text)))


def _unwrapped(text: str) -> str:
    """Write a text without the marks of LaTeX around words and numbers."""
    return _MARKS.sub(lambda found: found[1] or "", unicodedata.normalize("NFKC", text))


def amounts(text: str) -> list[str]:
    """Return the numbers that stand in a text, each with the fraction, power, multiple or percent sign that belongs to
    it; one that may be read in two ways stays as it is, and `value_of` reads none in it."""
    bare = _EXPONENT.sub("", _MACRO.sub(r" \1 ", even(text)))
    bare = _WHOLE.sub(lambda found: f"{AMBIGUOUS}{found[0].replace(AMBIGUOUS, '')}{AMBIGUOUS}", bare)
    return [found[0].strip(f"{AMBIGUOUS} ") for found in _AMOUNT.finditer(bare)]


def is_number(text: str) -> bool:
    """Tell whether a text is a number and nothing else, not even a unit."""
    return bool(_AMOUNT.fullmatch(even(text).strip())) and value_of(text) is not None


def written(text: str) -> str | None:
    """Write the number that a text is without separators, currency and unit, but % and words such as million, and a
    fraction as decimals where that is exact: "$1,234.50" is "1234.5". None: it is none, or may be read in two ways."""
    value = value_of(text)
    if value is None:
        return None
    number = (value.number * 100 if value.percent else value.number) / value.times
    unit = "%" * value.percent + (f" {_MULTIPLIED.findall(even(text))[-1].strip()}" if value.times > 1 else "")
    if not isinstance(number, Fraction):
        return text.strip()
    places = next((n for n in range(_PLACES) if (number * 10**n).denominator == 1), None)
    if places is None:
        return f"{number}{unit}"
    digits = f"{abs(number.numerator) * 10**places // number.denominator:0{places + 1}d}"
    whole = digits[: len(digits) - places] + (f".{digits[-places:]}" if places else "")
    return f"{'-' * (number < 0)}{whole}{unit}"


def same_answer(given: str, wanted: str) -> bool:
    """Tell whether two answers are the same text, or the same number, where one of them may leave its unit out."""
    if given == wanted:
        return True
    one, other = value_of(given), value_of(wanted)
    return bool(one and other and (is_number(given) or is_number(wanted)) and one.equals(other, _EXACT))


def _plain(text: str) -> str:
    """Write the number that a text is as Python writes it; of a text that is none, anything. Raises nothing."""
    bare = re.split(r"=|≈|\\approx", even(text))[-1].strip().rstrip(".。 ")
    bare = re.sub(_FALLING, lambda found: _sum(found[0]), bare)
    if len(bare) > _LONGEST or AMBIGUOUS in bare or _RANGE.search(bare):
        return ""
    for found, put in _REPLACED:
        bare = found.sub(put, bare)
    for _ in range(4):
        for found, put in _NESTED:
            bare = found.sub(put, bare)
    bare = _UNITS.sub("", bare.strip())
    for found, put in _LAST:
        bare = found.sub(put, bare)
    return bare.strip()


def _sum(text: str) -> str:
    """Sum parts whose units fall, as of 3亿5千万; others, such as 3万5, may be read in two ways."""
    parts = [(Fraction(digits), math.prod(_TIMES[unit] for unit in units)) for digits, units in _PART.findall(text)]
    falls = all(number * one < before for (_, before), (number, one) in pairwise(parts)) and parts[-1][1] > 1
    total = sum(number * one for number, one in parts)
    return str(total) if falls and total.denominator == 1 else AMBIGUOUS


def _evaluate(node: ast.expr) -> Exact:
    """Return the value of a syntax tree. Raises ValueError: it has what no number has."""
    match node:
        case ast.Constant(value=int() | float() as value) if not isinstance(value, bool):
            return Fraction(ast.unparse(node)) if math.isfinite(value) else _refuse()
        case ast.Name(id="pi"):
            return math.pi
        case ast.Call(func=ast.Name(id="sqrt"), args=[below]):
            root = math.sqrt(_evaluate(below))
            return Fraction(int(root)) if root == int(root) and root < 2**26 else root
        case ast.UnaryOp(op=ast.USub(), operand=below):
            return -_evaluate(below)
        case ast.BinOp(op=ast.Pow(), left=left, right=right):
            return _power(_evaluate(left), _evaluate(right))
        case ast.BinOp(op=op, left=left, right=right) if type(op) in _OPERATORS:
            found: Exact = _OPERATORS[type(op)](_evaluate(left), _evaluate(right))
            return found
    return _refuse()


def _power(base: Exact, exponent: Exact) -> Exact:
    if isinstance(base, Fraction) and isinstance(exponent, Fraction) and exponent.denominator == 1:
        if abs(exponent) * max(base.numerator.bit_length(), base.denominator.bit_length()) > _BITS:
            return _refuse()
        return Fraction(base**exponent)
    found = float(base) ** float(exponent)
    return _refuse() if isinstance(found, complex) else found


def _refuse() -> Fraction:
    raise ValueError("no number")
