r"""Values of final answers: numbers as people and LaTeX write them, exact where they can be.

"1,234.50", "$18", "18 dollars", "3/4", "2 1/2", "\frac{3}{4}", "50%", "1.5\times10^{3}", "2\sqrt{3}", "\pi/2",
"３．５", "1.2万" are numbers. Nothing of a text is run: its syntax tree is read."""

import ast
import math
import operator
import re
import unicodedata
from dataclasses import dataclass
from fractions import Fraction

from argosy.text.answers import NUMBER

_LONGEST = 200  # characters of an expression
_BITS = 4096  # of an exact power
_FRACTION = r"\\[dtc]?frac\s*(?:\{[^{}]*\}|\d)\s*(?:\{[^{}]*\}|\d)"
_AMOUNT = re.compile(rf"-?{_FRACTION}|(?:{NUMBER.pattern})(?:\s?/\s?\d+(?!\d*\s?/))?(?:\s?\\?%|\s?[万亿])?")
_WORDS = r"(?:[^\W\d_]{2,}|[^\W\d_\x00-\x7f])"
_UNITS = re.compile(
    rf"(?<=[\d)%])(?:\s*[\u3400-\u9fff]|\s+{_WORDS}|\s*(?:[ckm]m|[km]?g|m?l)\b)"
    r"(?:[\s./-]|[^\W\d]|(?<=[^\W\d_])\d)*?"  # of several words, and of m2, but of no second number
    rf"(?:\^\{{?\d\}}?)?$"
)
_REPLACED = tuple((re.compile(found), put) for found, put in (
    (r"\\(?:left|right|displaystyle|[!,;: ])|~|\\?\$|[€£¥]|\^\{?\\circ\}?|°", ""),
    (r"\\(?:text|mathrm|mbox|textbf|mathbf)\s*\{[^{}]*\}(?:\^\{?\d\}?)?", " "),
    (r"\{,\}", ","), (r"\\%", "%"), (r"[−–]", "-"), (r"\\(?:times|cdot)|[×⋅·]", "*"), (r"\\div|÷", "/"),
    (r"(?<=\d),(?=\d{3}(?!\d))", ""),
    (r"\\[dtc]frac", r"\\frac"), (r"\\frac\s*(\d)\s*(\d)", r"\\frac{\1}{\2}"), (r"\\frac\s*(\d)\s*\{", r"\\frac{\1}{"),
    (r"\\frac\s*(\{[^{}]*\})\s*(\d)", r"\\frac\1{\2}"), (r"\\sqrt\s*(\d)", r"\\sqrt{\1}"),
    (r"(\d+)\s*\\frac\{(\d+)\}\{(\d+)\}", r"(\1+\2/\3)"), (r"(?<![\d.])(\d+)\s+(\d+)\s*/\s*(\d+)", r"(\1+\2/\3)"),
    (r"(\d)\s*万", r"\1*10000"), (r"(\d)\s*亿", r"\1*100000000"),
))  # fmt: skip
_NESTED = tuple((re.compile(found), put) for found, put in (
    (r"\\frac\s*\{([^{}]*)\}\s*\{([^{}]*)\}", r"((\1)/(\2))"), (r"\\sqrt\s*\{([^{}]*)\}", r"sqrt(\1)"),
    (r"\^\s*\{([^{}]*)\}", r"**(\1)"),
))  # fmt: skip
_LAST = tuple((re.compile(found), put) for found, put in (
    (r"\\pi\b|π", "pi"), (r"\^", "**"),
    (r"(?<=[\d)])\s*(?=sqrt|pi\b|\()", "*"), (r"(?<![\w.])0+(?=\d)", ""),
))  # fmt: skip
_OPERATORS = {ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.truediv}
_MARKS = re.compile(r"\\(?:text|mathrm|mbox|textbf|mathbf)\s*\{([^{}]*)\}|\$|\\[,;: ]|\*\*")
_OR = r"[\s},]*(?:[^\W\d_]+\s+){0,3}?(?:or|或者?|%s)\s*(?:[a-z]\s*=\s*)?[-+]?(?:\\[dt]?frac\s*\{?)?\.?\d"
_AND = _OR % r"and|[和与]"
_SEVERAL = re.compile(rf"\d{_AND}", re.IGNORECASE)
_FIRST_OF_SEVERAL = re.compile(rf"\D*\d[\d.,/]*%?{_AND}", re.IGNORECASE)
_LAST_OF_SEVERAL = re.compile(rf"\d%?{_OR % '或是'}[\d.,/]*\D*$", re.IGNORECASE)
Exact = Fraction | float


@dataclass(frozen=True)
class Value:
    """A number; `percent`: it was written with %, and is a hundredth of what stood before that."""

    number: Exact
    percent: bool = False

    def equals(self, other: "Value", tolerance: float) -> bool:
        """Tell whether they are equal: whole numbers exactly, others within a relative `tolerance`. Where one of the
        two alone has a percent sign, it may be forgotten at the other: 50 is 50%, and so is 0.5."""
        scales: tuple[int, ...] = (1,) if self.percent == other.percent else (1, 100)
        own, theirs = (self, other) if self.percent else (other, self)
        return any(_close(own.number * scale, theirs.number, tolerance) for scale in scales)


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
    return Value(number / 100 if percent else number, percent)


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
    """Return the numbers that stand in a text, each with the fraction or the percent sign that belongs to it."""
    return [found[0] for found in _AMOUNT.finditer(unicodedata.normalize("NFKC", text).replace("−", "-"))]


def _plain(text: str) -> str:
    """Write the number that a text is as Python writes it; of a text that is none, anything. Raises nothing."""
    bare = re.sub(r"([²³])", lambda found: f"^{'2' if found[0] == '²' else '3'}", text)
    bare = unicodedata.normalize("NFKC", bare).replace("\u2044", "/")
    bare = re.split(r"=|≈|\\approx", bare)[-1].strip().rstrip(".。 ")
    if len(bare) > _LONGEST:
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
