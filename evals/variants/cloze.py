"""Forms in which the options' texts are scored: the question alone, with the options woven into its sentence, or after
a line for each of them."""

import re
from dataclasses import dataclass
from random import Random
from typing import Literal

from evals.question import SEPARATOR, Draft, Rendered
from evals.variants import NotApplicable, Variant, added_about_others, option_mark, refers_to_options, with_form

_END = "?？.。:：…_ ＿"
# The place that an exam leaves for the answer: （ ）, ( ), (\\quad), （ $)$
_PLACE = re.compile(r"\s*\$?\s*[（(][\s$]*(?:\\quad|\\qquad)?[\s$]*[)）]\s*\$?\s*$")
_LABEL = r"\(?[A-J]\)?"
# "Both A and B", "(A) or (C)", "only B", "A和B", as a whole option
LABELS = re.compile(
    rf"^(?:both|neither|either|only|options?|choices?|answers?)?\s*{_LABEL}(?:\s*(?:,|&|and|or|nor|[和与或、])\s*{_LABEL})+"
    rf"(?:\s+(?:only|(?:is|are)\s+\w+))?\s*[.。]?$|^(?:only|option|choice|answer)\s+{_LABEL}\s*[.。]?$",
    re.IGNORECASE)


class Cloze(Variant):
    """The cloze form (CF of OLMES, Gu et al. 2024; the GPT-3 paper's): fair to base models, which do not yet
    know what a letter stands for. Items whose question or options speak of "the following" are left out, but not
    with `every: true` (lm-eval's arc and openbookqa ask them too)."""

    name = "cloze"
    draws = False
    every: bool = False

    def apply(self, draft: Draft, rng: Random) -> list[Draft]:
        if not self.every and refers_to_options(draft.question, draft.own_choices):
            raise NotApplicable("speaks of the other options, which a cloze question does not show")
        if added_about_others(draft.choices, draft.origin):
            raise NotApplicable("an added option speaks of the others, which a cloze question does not show")
        return [with_form(draft, cloze_form)]


def cloze_form(draft: Draft) -> Rendered:
    """Render the question and the cue."""
    return Rendered(draft.layout.before + draft.question + draft.cue, draft.choices, False, shown=False)


class OptionsInText(Variant):
    """"What is the capital of France: Rome, Paris, Berlin or Madrid?": nothing is left of the known layout and
    its letters, but the options are still to be read."""

    name = "options_in_text"
    draws = False

    def apply(self, draft: Draft, rng: Random) -> list[Draft]:
        if any(LABELS.search(choice) for choice in draft.choices):
            raise NotApplicable("an option names labels, which are not shown")
        return [with_form(draft, woven_form)]


def woven_form(draft: Draft) -> Rendered:
    """Render the question's sentence, continued by its options."""
    stem = _PLACE.sub("", draft.question.rstrip(_END)).rstrip(_END + "（(") or draft.question
    *first, last = [choice.rstrip("。．.；; ") or choice for choice in draft.choices]
    if draft.lang == "zh":
        comma = "；" if any(mark in choice for choice in draft.choices for mark in "、，,；") else "、"
        prompt = f"{stem}：{comma.join(first)}{'' if comma == '、' else comma}还是{last}？"
    else:
        # Options with commas of their own need another sign between them.
        comma = "; " if any("," in choice for choice in draft.choices) else ", "
        prompt = f"{stem}: {comma.join(first)} or {last}?"
    return Rendered(draft.layout.before + prompt + draft.cue, draft.choices, False)


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
