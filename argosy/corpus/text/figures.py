"""Figures of a text, its numbers and the signs of arithmetic and of programs: what makes two questions of the same
words different (12 + 4, 12 - 4), and two sums in the same long words."""

import re
import unicodedata

_NAMES = (
    "a abbr article aside b big blockquote body br button caption center cite code col dd del details dfn "
    "div dl dt em figcaption figure font footer form h1 h2 h3 h4 h5 h6 head header hr html i iframe img "
    "input ins kbd label li link main mark meta nav ol option p pre q s samp script section select small "
    "source span strike strong style sub summary sup table tbody td textarea tfoot th thead time title tr "
    "tt u ul var video")
# Attributes have a value: of a<b and c>d it is not the tag <b and c>.
_TAG = re.compile(rf"""</?(?:{_NAMES.replace(" ", "|")})(?:\s+[\w:-]+=(?:"[^"<>]*"|'[^'<>]*'|[^\s"'<>]+))*\s*/?>""",
                  re.IGNORECASE)
_SIGNS = str.maketrans(
    dict(zip("\u2212\u2013\u2014\u00d7\u00f7", "---*/", strict=True))  # minus, dashes, times, divided by
    | {power: f"^{digit}" for digit, power in enumerate("⁰¹²³⁴⁵⁶⁷⁸⁹")})
# A hyphen between letters and the marks of Markdown are no signs.
_FIGURE = re.compile(r"(?<![A-Za-z0-9_])\d+|[+<>=^±≤≥≠%&|~]|--|(?<=[\d)])\s*[-*/]|[-*/](?=\s*[\d(])|(?<=\s)[-*/](?=\s)|"
                     r"!=|(?<!\w)!(?=[\w(])")
_WIDE = str.maketrans(dict.fromkeys("，；：？！", " ") | dict.fromkeys("\u2010\u2011", "-") | {"\u2044": "/"})
# A hyphen inside a word, and a sentence's exclamation mark: neither after a lone letter, as in a-b and n!.
_PROSE = re.compile(r"(?<=[^\W\d_]{2})-(?=[^\W\d_]{2})|"
                    r"(?:(?<=[^\W\d_]{2})|(?<=[^\W\d_]{2}\s)|(?<=[?\"'”’]))!+(?![\w(\[{=!])")
# Punctuation that no space follows (1.5, a[1:]) and primes (f') are no sentence's.
_PART = re.compile(r"\w+|(?P<inner>[.,:;?](?=[\[A-Za-z0-9_({<>=+*/&|^%$@#~\\-])|:(?=[\])}])|"
                   r"(?<=(?<!\w)[A-Za-z])['’]+(?!\w))|"
                   r"(?P<other>[^\w\s])")
_OPERATORS, _BRACKETS, _QUOTES = "!%&*/@#\\-·‖′″‴‰", "()[]{}⌈⌉⌊⌋⟨⟩⟦⟧", "`´"
_EDGES = re.compile(r"^[\W_]+|[\W_]+$")


def figures(text: str) -> list[str]:
    """List the figures of a text in their order; those of HTML's tags are none."""
    plain = unicodedata.normalize("NFKC", _TAG.sub(" ", text).translate(_SIGNS))
    return [found.strip() for found in _FIGURE.findall(plain)]


def inner_figures(text: str) -> list[str]:
    """List the figures between the first and the last word of a text."""
    return figures(_EDGES.sub("", text))


def signs(text: str) -> list[str]:
    """List, in their order, the words of a text with digits, the characters that are neither words nor punctuation of
    sentences, and the words beside such an operator: texts that differ in one of these ask different things.

    In doubt a mark counts: a record that is kept too often costs less than one that is lost."""
    plain = unicodedata.normalize("NFKC", text.translate(_WIDE).translate(_SIGNS)).translate(_WIDE)
    parts = list(_PART.finditer(_PROSE.sub(" ", plain)))
    wanted: set[int] = set()
    for at, part in enumerate(parts):
        sign = part["other"]
        if sign and (sign in _OPERATORS or (unicodedata.category(sign)[0] == "S" and sign not in _QUOTES)):
            beside = {other for other in (at - 1, at + 1) if 0 <= other < len(parts) and parts[other][0][0].isalnum()}
            wanted |= {at} | beside
        elif part["inner"] or (sign and sign in _BRACKETS) or (not sign and any(map(str.isdigit, part[0]))):
            wanted.add(at)
    return [parts[at][0] for at in sorted(wanted)]
