"""Rules that read texts as filters and metrics of lm-eval's generative tasks do (gsm8k_cot, bbh_cot, MMLU's)."""

import re
import string

from evals.extract import Rule
from evals.extract.values import Gsm8kStrict

_STATED = re.compile(r"The answer is (\-?[0-9\.\,]+).")
_BBH = re.compile(r"(?<=the answer is )(.*)(?=.)")
_MARKS = str.maketrans("", "", string.punctuation)


class Gsm8kCot(Gsm8kStrict):
    """The first number behind "The answer is "; another character follows it."""

    name = "gsm8k_cot"
    own_line = False

    def extract(self, text: str, labels: str) -> str | None:
        found = _STATED.search(text)
        return self.canonical(found[1]) if found else None

    def closing(self, answer: str, lang: str) -> str:
        return f"The answer is {answer}."


class BbhCot(Rule):
    """The text behind the first "the answer is ", but its line's last character; a label stands in brackets."""

    name = "bbh_cot"
    own_line = False

    def extract(self, text: str, labels: str) -> str | None:
        found = _BBH.search(text)
        return found[1].strip() if found else None

    def canonical(self, answer: str) -> str:
        """Put a label in brackets."""
        return f"({answer})" if re.fullmatch("[A-Z]", answer) else answer.strip()

    def closing(self, answer: str, lang: str) -> str:
        return f"So the answer is {self.canonical(answer)}."


class LineAlone(Rule):
    """The first line whole, in capitals and without punctuation: "B." is B, "B. Paris" is none of the labels."""

    name = "line_alone"

    def extract(self, text: str, labels: str) -> str | None:
        return self.canonical(text.strip().partition("\n")[0]) or None

    def canonical(self, answer: str) -> str:
        return answer.strip().translate(_MARKS).upper()
