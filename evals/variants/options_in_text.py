"""Options inside the question's sentence, without labels; their texts are scored."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from random import Random
from typing import ClassVar

from evals.question import Draft, Rendered
from evals.variants.registry import NotApplicable

_END = "?？.。:：…_ ＿"
# The place that an exam leaves for the answer: （ ）, ( ), (\\quad), （ $)$
_PLACE = re.compile(r"\s*\$?\s*[（(][\s$]*(?:\\quad|\\qquad)?[\s$]*[)）]\s*\$?\s*$")
_LABEL = r"\(?[A-J]\)?"
# "Both A and B", "(A) or (C)", "only B", "A和B", as a whole option
_LABELS = re.compile(
    rf"^(?:both|neither|either|only|options?|choices?|answers?)?\s*{_LABEL}(?:\s*(?:,|&|and|or|nor|[和与或、])\s*{_LABEL})+"
    rf"(?:\s+(?:only|(?:is|are)\s+\w+))?\s*[.。]?$|^(?:only|option|choice|answer)\s+{_LABEL}\s*[.。]?$",
    re.IGNORECASE,
)


@dataclass(frozen=True)
class OptionsInText:
    """"What is the capital of France: Rome, Paris, Berlin or Madrid?": nothing is left of the known layout and
    its letters, but the options are still to be read."""

    name: ClassVar[str] = "options_in_text"
    draws: ClassVar[bool] = False

    def apply(self, draft: Draft, rng: Random) -> list[Draft]:
        """The same question in another form."""
        if any(_LABELS.search(choice) for choice in draft.choices):
            raise NotApplicable("an option names labels, which are not shown")
        return [replace(draft, form=woven_form)]


def woven_form(draft: Draft) -> Rendered:
    """The question's sentence, continued by its options."""
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
