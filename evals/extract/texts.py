"""Rules for texts: the whole answer, a stated one, the contents of a box."""

import re
import unicodedata

from evals.extract import Rule
from evals.extract.numbers import NUMBER, plain

_MARKS = " \t\n.,;:!?\"'“”‘’*$。，；：！？、"
_ARTICLE = re.compile(r"^(?:the|an?)\s+", re.IGNORECASE)


class Exact(Rule):
    """The first line, lower case, without an article before it and marks around it (SQuAD's normalisation)."""

    name = "exact"

    def extract(self, text: str, labels: str) -> str | None:
        """Find the first line that has something, or None."""
        lines = [line for line in text.splitlines() if line.strip(_MARKS)]
        return canonical(lines[0]) if lines else None

    def canonical(self, answer: str) -> str:
        """Write the answer as the class says."""
        return canonical(answer)


def canonical(answer: str) -> str:
    """Write a text as Exact compares it; full-width characters are as others."""
    bare = _ARTICLE.sub("", unicodedata.normalize("NFKC", answer).strip(_MARKS))
    return plain(bare) if NUMBER.fullmatch(bare) else " ".join(bare.casefold().split())


_STATED = re.compile(
    r"(?i:\banswer\s*(?:is\s*[:：]?|[:：]))\s*([^\n]+?)(?=\.(?:\s|$)|\n|$)"
    r"|答案\s*(?:应?[是为][:：]?|[:：])\s*([^\n。]+)"
)


class Stated(Rule):
    """The text that the last sentence such as "... The answer is 42." or "……答案是42。" states."""

    name = "stated"

    def extract(self, text: str, labels: str) -> str | None:
        """Find the text, without marks around it, or None."""
        found = [english or chinese for english, chinese in _STATED.findall(text)]
        return (canonical(found[-1]) or None) if found else None

    def canonical(self, answer: str) -> str:
        """Write it in lower case, without marks around it; numbers as `last_number` has them."""
        return canonical(answer)

    def closing(self, answer: str, lang: str) -> str:
        """Write the sentence."""
        return f"The answer is {answer}." if lang == "en" else f"答案是{answer}。"


_BOXES = ("\\boxed{", "\\fbox{")


class Boxed(Rule):
    """The contents of the last `\\boxed{...}` (MATH's form), braces within it counted; a number without separators."""

    name = "boxed"

    def extract(self, text: str, labels: str) -> str | None:
        """Find the contents, or None where there is no box or it is not closed."""
        start, mark = max((text.rfind(mark), mark) for mark in _BOXES)
        if start < 0:
            return None
        start += len(mark)
        depth = 1
        for end in range(start, len(text)):
            depth += {"{": 1, "}": -1}.get(text[end], 0)
            if not depth:
                return self.canonical(text[start:end])
        return None

    def canonical(self, answer: str) -> str:
        """Take off spaces and dollar signs; numbers are as `last_number` has them."""
        bare = "".join(answer.split()).strip("$").removesuffix(".")
        return plain(bare) if NUMBER.fullmatch(bare) else bare

    def closing(self, answer: str, lang: str) -> str:
        """Write the box."""
        return f"$\\boxed{{{answer}}}$"
