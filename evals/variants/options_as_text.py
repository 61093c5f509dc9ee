"""The form in which practitioners write options as text."""

import re
from dataclasses import dataclass
from random import Random
from typing import Literal

from evals.question import SEPARATOR, Draft, Rendered
from evals.variants import NotApplicable, Variant, option_mark, with_form
from evals.variants.cloze import LABELS

_ASK = {"en": "With this text, answer: ", "zh": "根据以上文字回答："}
_GAP = re.compile(r"_{2,}|＿+|[（(]\s+[)）]|(?<![A-Za-z0-9_])[（(][)）]")  # not that of "print()"


class OptionsAsText(Variant):
    """A line an option, of the question and the option, then the question about this text: nothing of the known layout
    is left, and all that is asked is which line is true.

    `answer`: the option's `text`, or a `label` before its line. A gap, or an exam's place for the answer, is filled.
    Items with an option that names labels ("Both A and B") are left out."""

    name = "options_as_text"
    draws = False
    several = True
    answer: Literal["text", "label"] = "text"

    def apply(self, draft: Draft, rng: Random) -> list[Draft]:
        if any(LABELS.search(choice) for choice in draft.choices):
            raise NotApplicable("an option names labels, which are not shown")
        return [with_form(draft, AsText(labelled=self.answer == "label"))]


@dataclass(frozen=True)
class AsText:
    """The form of `options_as_text`; `labelled`: with a label before each line, which is the answer."""

    labelled: bool

    def __call__(self, draft: Draft) -> Rendered:
        """Write a line an option, and the question after them."""
        lines = [stated(draft.question, choice, draft.lang) for choice in draft.choices]
        labels = tuple(draft.labels[: len(lines)])
        if self.labelled:
            lines = [option_mark(label, draft.lang) + line for label, line in zip(labels, lines, strict=True)]
        text = "".join(f"{line}\n" for line in lines)
        prompt = f"{draft.layout.before}{text}{_ASK[draft.lang]}{draft.question}{draft.cue}"
        return Rendered(prompt, labels if self.labelled else draft.choices, self.labelled)


def stated(question: str, choice: str, lang: str) -> str:
    """Write a question with one of its options: in its only gap, else after it."""
    if len(_GAP.findall(question)) == 1:
        return _GAP.sub(lambda _: choice, question)
    return f"{question.rstrip()}{SEPARATOR[lang]}{choice}"
