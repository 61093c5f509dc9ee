"""Figures of a text, its numbers and the signs of arithmetic and of programs: what makes two questions of the same
words different (12 + 4, 12 - 4), and two sums in the same long words."""

import re
import unicodedata

_TAG = re.compile(r"</?[A-Za-z][^<>]*>")
_SIGNS = str.maketrans(
    dict(zip("\u2212\u2013\u2014\u00d7\u00f7", "---*/", strict=True))  # minus, dashes, times, divided by
    | {power: f"^{digit}" for digit, power in enumerate("⁰¹²³⁴⁵⁶⁷⁸⁹")}
)
# A hyphen between letters and the marks of Markdown are no signs.
_FIGURE = re.compile(r"(?<![A-Za-z0-9_])\d+|[+<>=^±≤≥≠%&|~]|--|(?<=[\d)])\s*[-*/]|[-*/](?=\s*[\d(])|(?<=\s)[-*/](?=\s)|"
                     r"!=|(?<!\w)!(?=[\w(])")
_EDGES = re.compile(r"^[\W_]+|[\W_]+$")


def figures(text: str) -> list[str]:
    """List the figures of a text in their order; those of HTML's tags are none."""
    plain = unicodedata.normalize("NFKC", _TAG.sub(" ", text).translate(_SIGNS))
    return [found.strip() for found in _FIGURE.findall(plain)]


def inner_figures(text: str) -> list[str]:
    """List the figures between the first and the last word of a text."""
    return figures(_EDGES.sub("", text))
