"""Rules for labels of options."""

from typing import ClassVar

from argosy.corpus.text.options import chosen_label, chosen_labels
from evals.extract import Rule


class Letter(Rule):
    """"B", "B.", "(B) Paris", "The answer is B", "答案是B", "故选：B", "\\boxed{B}": a stated label (the last one) goes
    before the one that the text begins with, and that before the only one that stands alone in it. One that the text
    denies ("not A", "A is wrong", "不选A") is none; "B or C" is no answer, nor is what follows a next question."""

    name = "letter"
    stated_alone: ClassVar[bool] = False

    def extract(self, text: str, labels: str) -> str | None:
        return chosen_label(text, labels, stated_alone=self.stated_alone)


class StatedLetter(Letter):
    """The label that a chain of thought states ("So the answer is (B)."): one that it only mentions is no answer."""

    name = "stated_letter"
    own_line = False
    stated_alone = True

    def closing(self, answer: str, lang: str) -> str:
        return f"So the answer is ({answer})." if lang == "en" else f"所以答案是{answer}。"


class Letters(Rule):
    """"AC", "A, C", "A和C", "答案是A、C": the labels of the last run of them that is stated, else of the run that
    the text begins with, in the order of the options."""

    name = "letters"
    sets = True
    stated_alone: ClassVar[bool] = False

    def extract(self, text: str, labels: str) -> str | None:
        """Find some of `labels`, each once, or None."""
        return chosen_labels(text, labels, stated_alone=self.stated_alone)


class StatedLetters(Letters):
    """The labels that a chain of thought states."""

    name = "stated_letters"
    own_line = False
    stated_alone = True

    def closing(self, answer: str, lang: str) -> str:
        return f"So the answer is {answer}." if lang == "en" else f"所以答案是{answer}。"
