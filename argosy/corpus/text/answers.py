"""Final answers in texts: numbers, stated answers, the contents of boxes, and the normal form in which they compare."""

import re
import unicodedata

from argosy.corpus.text.values import is_number, written

MARKS = " \t\n.,;:!?\"'“”‘’*$。，；：！？、"
_ARTICLE = re.compile(r"^(?:the|an?)\s+", re.IGNORECASE)
_STATED = re.compile(
    r"(?i:\banswer\s*(?:is\s*[:：]?|[:：]))\s*([^\n]+?)(?=\.(?:\s|$)|\n|$)"
    r"|答案\s*(?:应?[是为][:：]?|[:：])\s*([^\n。]+)")
_BOX = re.compile(r"\\f?box(?:ed)?\s*\{")


def canonical(answer: str, numbers: bool = True) -> str:
    """Write a text in lower case, without an article before it and marks around it (SQuAD's normalisation); full-width
    characters are as others, and `numbers` as `written` has them."""
    bare = _ARTICLE.sub("", unicodedata.normalize("NFKC", answer).strip(MARKS))
    number = written(bare) if numbers and is_number(bare) else None
    return " ".join(bare.casefold().split()) if number is None else number


def stated(text: str) -> str | None:
    """Return what the last sentence such as "... The answer is 42." or "……答案是42。" states, or None."""
    found = [english or chinese for english, chinese in _STATED.findall(text)]
    return found[-1] if found else None


def boxed(text: str) -> str | None:
    """Return the contents of the last `\\boxed{...}`, braces within it counted; None where none is closed there."""
    marks = [*_BOX.finditer(text)]
    if not marks:
        return None
    start = marks[-1].end()
    depth = 1
    for end in range(start, len(text)):
        depth += {"{": 1, "}": -1}.get(text[end], 0)
        if not depth:
            return text[start:end]
    return None
