"""Final answers in texts: numbers, stated answers, the contents of boxes, and the normal form in which they compare."""

import re
import unicodedata
from decimal import Context, Decimal

# Thousands in groups of three; a sign that is no subtraction; a decimal part that is no sentence's end.
NUMBER = re.compile(r"(?<![\d.])(?:(?<![\w)])-\s?)?[$€£¥￥]?(?:\d{1,3}(?:,\d{3})+(?!\d)|\d+)(?:\.\d+)?|(?<![\d.])\.\d+")
MARKS = " \t\n.,;:!?\"'“”‘’*$。，；：！？、"
_ARTICLE = re.compile(r"^(?:the|an?)\s+", re.IGNORECASE)
_STATED = re.compile(
    r"(?i:\banswer\s*(?:is\s*[:：]?|[:：]))\s*([^\n]+?)(?=\.(?:\s|$)|\n|$)"
    r"|答案\s*(?:应?[是为][:：]?|[:：])\s*([^\n。]+)"
)
_BOXES = ("\\boxed{", "\\fbox{")


def plain(number: str) -> str:
    """Write a number without separators, currency and zeros that say nothing: "$1,234.50" is "1234.5"."""
    digits = re.sub(r"[,$€£¥￥\s]", "", number)
    value = Decimal(digits).normalize(Context(prec=max(len(digits), 1)))  # the default's 28 digits would round
    return f"{value:f}".replace("-0", "0") if value == 0 else f"{value:f}"


def canonical(answer: str, numbers: bool = True) -> str:
    """Write a text in lower case, without an article before it and marks around it (SQuAD's normalisation); full-width
    characters are as others, and `numbers` as `plain` has them."""
    bare = _ARTICLE.sub("", unicodedata.normalize("NFKC", answer).strip(MARKS))
    return plain(bare) if numbers and NUMBER.fullmatch(bare) else " ".join(bare.casefold().split())


def stated(text: str) -> str | None:
    """Return what the last sentence such as "... The answer is 42." or "……答案是42。" states, or None."""
    found = [english or chinese for english, chinese in _STATED.findall(text)]
    return found[-1] if found else None


def boxed(text: str) -> str | None:
    """Return the contents of the last `\\boxed{...}`, braces within it counted, or None: there is none, or it is not
    closed."""
    start, mark = max((text.rfind(mark), mark) for mark in _BOXES)
    if start < 0:
        return None
    start += len(mark)
    depth = 1
    for end in range(start, len(text)):
        depth += {"{": 1, "}": -1}.get(text[end], 0)
        if not depth:
            return text[start:end]
    return None
