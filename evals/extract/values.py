"""Rules for numbers (the last or the first of a text, GSM8K's as lm-eval reads it) and for texts (the whole answer, a
stated one, the contents of a box)."""

import re

from argosy.text.answers import MARKS, NUMBER, boxed, canonical, plain, stated
from evals.extract import Rule

_FINAL = re.compile(r"####\s*([^\n]*)")


class LastNumber(Rule):
    """The number behind "####" (GSM8K's own mark), else the last one: "#### 18", "so she has 1,234.50 dollars."."""

    name = "last_number"

    def extract(self, text: str, labels: str) -> str | None:
        """Find a number without separators and units, or None."""
        marked = _FINAL.search(text)
        found = NUMBER.findall(marked.group(1)) if marked else []
        return plain(found[0]) if found else next(map(plain, NUMBER.findall(text)[-1:]), None)

    def canonical(self, answer: str) -> str:
        """Write the number; a text that is none stays as it is."""
        found = NUMBER.search(answer)
        return plain(found.group()) if found else answer.strip()

    def closing(self, answer: str, lang: str) -> str:
        """Write GSM8K's mark before the answer."""
        return f"#### {answer}"


class Number(LastNumber):
    """The first number: "18 eggs, not 20" is 18. For answers without a worked solution."""

    name = "number"

    def extract(self, text: str, labels: str) -> str | None:
        """Find a number without separators and units, or None."""
        found = NUMBER.search(text)
        return plain(found.group()) if found else None

    def closing(self, answer: str, lang: str) -> str:
        """Write the number alone."""
        return answer


_STRICT = re.compile(r"#### (-?[0-9.,]+)")
_FLEXIBLE = re.compile(r"(-?[$0-9.,]{2,})|(-?[0-9]+)")


class Gsm8kStrict(Rule):
    """The first number behind "#### "."""

    name = "gsm8k_strict"

    def extract(self, text: str, labels: str) -> str | None:
        """Find the number without `,` and `$`, or None."""
        found = _STRICT.search(text)
        return self.canonical(found[1]) if found else None

    def canonical(self, answer: str) -> str:
        """Take off `,`, `$` and a full stop at the end, as lm-eval's exact_match does."""
        return re.sub(r"\.$", "", re.sub(r"[,$]", "", answer)).strip()

    def closing(self, answer: str, lang: str) -> str:
        """Write GSM8K's last line."""
        return f"#### {answer}"


class Gsm8kFlexible(Gsm8kStrict):
    """The last thing that looks like a number."""

    name = "gsm8k_flexible"

    def extract(self, text: str, labels: str) -> str | None:
        """Find the number without `,` and `$`, or None."""
        found = [first or second for first, second in _FLEXIBLE.findall(text)]
        return self.canonical(found[-1]) if found else None


class Exact(Rule):
    """The first line, lower case, without an article before it and marks around it (SQuAD's normalisation)."""

    name = "exact"

    def extract(self, text: str, labels: str) -> str | None:
        """Find the first line that has something, or None."""
        lines = [line for line in text.splitlines() if line.strip(MARKS)]
        return canonical(lines[0]) if lines else None

    def canonical(self, answer: str) -> str:
        """Write the answer as the class says."""
        return canonical(answer)


class Stated(Rule):
    """The text that the last sentence such as "... The answer is 42." or "……答案是42。" states."""

    name = "stated"

    def extract(self, text: str, labels: str) -> str | None:
        """Find the text, without marks around it, or None."""
        found = stated(text)
        return (canonical(found) or None) if found else None

    def canonical(self, answer: str) -> str:
        """Write it in lower case, without marks around it; numbers as `last_number` has them."""
        return canonical(answer)

    def closing(self, answer: str, lang: str) -> str:
        """Write the sentence."""
        return f"The answer is {answer}." if lang == "en" else f"答案是{answer}。"


class Boxed(Rule):
    """The contents of the last `\\boxed{...}` (MATH's form), braces within it counted; a number without separators."""

    name = "boxed"

    def extract(self, text: str, labels: str) -> str | None:
        """Find the contents, or None where there is no box or it is not closed."""
        found = boxed(text)
        return None if found is None else self.canonical(found)

    def canonical(self, answer: str) -> str:
        """Take off spaces and dollar signs; numbers are as `last_number` has them."""
        bare = "".join(answer.split()).strip("$").removesuffix(".")
        return plain(bare) if NUMBER.fullmatch(bare) else bare

    def closing(self, answer: str, lang: str) -> str:
        """Write the box."""
        return f"$\\boxed{{{answer}}}$"
