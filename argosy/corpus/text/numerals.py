r"""Numbers in a text, written in one way: "1 234,5", "1.234,5", "1'234.5", "1{,}234.5" and "１２３４．５" are one.

What may be two numbers ("1,5": a decimal comma, or a list) is marked and never read."""

import re
import unicodedata
from decimal import Context, Decimal

AMBIGUOUS = "\ue000"  # stands before and after what may be read in two ways
_FIRST = r"[1-9]\d{0,2}"
# Digits with what may stand within a number; a space is part of it before three digits alone.
_RUN = re.compile(r"(?<![\d.])\d(?:\d|[.,'’_:/](?=\d)|(?<![/:] )[ ](?=\d{3}(?![\d:/])))*(?:-\d\d-\d\d(?!\d))?")
_SAME = re.compile(r"\d+(?:\.\d+)?(?:/\d+(?:\.\d+)?)?")
_DECIMAL_POINT = re.compile(
    rf"(?:{_FIRST}(?:,\d{{3}})+|[1-9]\d?(?:,\d\d)+,\d{{3}}|{_FIRST}(?:(?:[ ]\d{{3}})+|(?:['’]\d{{3}})+|(?:_\d{{3}})+))"
    r"(?:\.\d+)?")
_DECIMAL_COMMA = re.compile(
    rf"{_FIRST}(?:\.\d{{3}}){{2,}}(?:,\d+)?|{_FIRST}\.\d{{3}},(?:\d\d?|\d{{4,}})"
    rf"|{_FIRST}(?:(?:[ ]\d{{3}})+|(?:['’]\d{{3}})+),\d\d?")
_RAISED = str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹⁻⁺", "0123456789-+")
_BEFORE = (
    (re.compile(r"[⁻⁺]?[⁰¹²³⁴-⁹]+"), lambda found: f"^{{{found[0].translate(_RAISED)}}}"),
    (re.compile(r"[¼-¾⅐-⅞]"), lambda found: f" {found[0]}"),  # 2½ is no 21/2
    (re.compile(r"[①-⑳]"), lambda found: f" ({unicodedata.normalize('NFKC', found[0])}) "))
_AFTER = tuple((re.compile(found), put) for found, put in (
    (r"[\u2010-\u2013\u2212]", "-"), ("\u2044", "/"), (r"\\!|\\(?:left|right|displaystyle)(?![A-Za-z])", ""),
    (r"\{([,.])\}", r"\1"),
    (r"\\[,;:> ]|~|\\(?:quad|qquad|thinspace)(?![A-Za-z])", " "), (r"\\([$%])", r"\1"),
    (r"\\(?:times|cdot)(?![A-Za-z])|[⋅·∙✕]", "×"),
    (r"(?<=\d)\s*[xX]\s*(?=10\^)", "×"), (r"(?<=\d)\s*(?:percent|per cent|pct)\b", "%"),
    (r"百分之\s*(-?\d[\d.,]*)", r"\1%")))  # fmt: skip


def plain(number: str) -> str:
    """Write a number without separators, currency and zeros that say nothing: "$1,234.50" is "1234.5"."""
    digits = re.sub(r"[,$€£¥￥\s]", "", number)
    value = Decimal(digits).normalize(Context(prec=max(len(digits), 1)))  # the default's 28 digits would round
    return f"{value:f}".replace("-0", "0") if value == 0 else f"{value:f}"


def even(text: str) -> str:
    """Write a text in common characters: ASCII digits and signs, numbers without separators of thousands and with a
    decimal point; what may be read in two ways between AMBIGUOUS."""
    for pattern, write in _BEFORE:
        text = pattern.sub(write, text)
    text = unicodedata.normalize("NFKC", text)
    for pattern, put in _AFTER:
        text = pattern.sub(put, text)
    return _RUN.sub(lambda found: _one_way(found[0]), text)


def _one_way(run: str) -> str:
    if _SAME.fullmatch(run):
        return run
    if _DECIMAL_POINT.fullmatch(run):
        return re.sub(r"[^\d.]", "", run)
    if _DECIMAL_COMMA.fullmatch(run):
        return re.sub(r"[^\d,]", "", run).replace(",", ".")
    if " " in run:  # numbers beside each other
        return " ".join(map(_one_way, run.split(" ")))
    if run.count("/") == 1 and AMBIGUOUS not in (fraction := "/".join(map(_one_way, run.split("/")))):
        return fraction
    return f"{AMBIGUOUS}{run}{AMBIGUOUS}"
