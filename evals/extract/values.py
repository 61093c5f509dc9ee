"""Rules for numbers (the last or the first of a text, GSM8K's as lm-eval reads it) and for texts (the whole answer, a
stated one, the contents of a box)."""

import re

from argosy.corpus.text.answers import MARKS, boxed, canonical, stated
from argosy.corpus.text.values import amounts, same_answer, written
from evals.extract import Rule

_WORDS = re.compile(r"\\(?:text|mathrm|mbox|textbf|mathbf)\s*\{([^{}]*)\}")
_FINAL = re.compile(r"####\s*([^\n]*)")


class _Value(Rule):
    """A rule whose answers are compared as numbers where they are numbers."""

    def same(self, found: str, answer: str) -> bool:
        return same_answer(found, answer)


class LastNumber(_Value):
    """The number behind "####" (GSM8K's own mark), else the last one: "#### 18", "so she has 1,234.50 dollars."."""

    name = "last_number"

    def extract(self, text: str, labels: str) -> str | None:
        """Find a number without separators and units, or None: there is none, or it may be read in two ways."""
        marked = _FINAL.search(text)
        if marked and (found := amounts(marked[1])):
            return written(found[0])
        found = amounts(text)
        return written(found[-1]) if found else None

    def canonical(self, answer: str) -> str:
        """Write the number; a text that is none stays as it is."""
        found = amounts(answer)
        return (written(found[0]) if found else None) or answer.strip()

    def closing(self, answer: str, lang: str) -> str:
        return f"#### {answer}"


class Number(LastNumber):
    """The first number: "18 eggs, not 20" is 18. For answers without a worked solution."""

    name = "number"

    def extract(self, text: str, labels: str) -> str | None:
        """Find a number without separators and units, or None: there is none, or it may be read in two ways."""
        found = amounts(text)
        return written(found[0]) if found else None

    def closing(self, answer: str, lang: str) -> str:
        return answer


_STRICT = re.compile(r"#### (-?[0-9.,]+)")
_FLEXIBLE = re.compile(r"(-?[$0-9.,]{2,})|(-?[0-9]+)")


class Gsm8kStrict(Rule):
    """The first number behind "#### "."""

    name = "gsm8k_strict"

    def extract(self, text: str, labels: str) -> str | None:
        found = _STRICT.search(text)
        return self.canonical(found[1]) if found else None

    def canonical(self, answer: str) -> str:
        """Take off `,`, `$` and a full stop at the end, as lm-eval's exact_match does."""
        return re.sub(r"\.$", "", re.sub(r"[,$]", "", answer)).strip()

    def closing(self, answer: str, lang: str) -> str:
        return f"#### {answer}"


class Gsm8kFlexible(Gsm8kStrict):
    """The last thing that looks like a number."""

    name = "gsm8k_flexible"

    def extract(self, text: str, labels: str) -> str | None:
        found = [first or second for first, second in _FLEXIBLE.findall(text)]
        return self.canonical(found[-1]) if found else None


class Exact(Rule):
    """The first line, lower case, without an article before it and marks around it (SQuAD's normalisation)."""

    name = "exact"

    def extract(self, text: str, labels: str) -> str | None:
        lines = [line for line in text.splitlines() if line.strip(MARKS)]
        return canonical(lines[0]) if lines else None

    def canonical(self, answer: str) -> str:
        return canonical(answer)


class Stated(_Value):
    """The text that the last sentence such as "... The answer is 42." or "……答案是42。" states."""

    name = "stated"
    own_line = False

    def extract(self, text: str, labels: str) -> str | None:
        """Find the text, without marks around it, or None."""
        found = stated(text)
        return (canonical(found) or None) if found else None

    def canonical(self, answer: str) -> str:
        """Write it in lower case, without marks around it; numbers as `last_number` has them."""
        return canonical(answer)

    def closing(self, answer: str, lang: str) -> str:
        return f"The answer is {answer}." if lang == "en" else f"答案是{answer}。"


class Boxed(_Value):
    """The contents of the last `\\boxed{...}` (MATH's form), braces within it counted; a number without separators."""

    name = "boxed"

    def extract(self, text: str, labels: str) -> str | None:
        """Find the contents, or None where there is no box, nothing in it, or it is not closed."""
        found = boxed(text)
        return None if found is None else self.canonical(found) or None

    def canonical(self, answer: str) -> str:
        """Write a number as `last_number` does; else take off spaces, dollar signs, and marks of LaTeX for words."""
        return written(answer) or "".join(_WORDS.sub(r"\1", answer).split()).strip("$").removesuffix(".")

    def closing(self, answer: str, lang: str) -> str:
        return f"$\\boxed{{{answer}}}$"
