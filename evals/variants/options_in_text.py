"""Options inside the question's sentence, without labels; their texts are scored."""

from __future__ import annotations

from dataclasses import dataclass, replace
from random import Random
from typing import ClassVar

from evals.question import Draft, Rendered

_END = "?？.。:：…_ ＿"


@dataclass(frozen=True)
class OptionsInText:
    """"What is the capital of France: Rome, Paris, Berlin or Madrid?": nothing is left of the known layout and
    its letters, but the options are still to be read."""

    name: ClassVar[str] = "options_in_text"

    def apply(self, draft: Draft, rng: Random) -> list[Draft]:
        """The same question in another form."""
        return [replace(draft, form=woven_form)]


def woven_form(draft: Draft) -> Rendered:
    """The question's sentence, continued by its options."""
    stem = draft.question.rstrip(_END) or draft.question
    if draft.lang == "zh":
        prompt = f"{stem}：{'、'.join(draft.choices[:-1])}还是{draft.choices[-1]}？"
    else:
        # Options with commas of their own need another sign between them.
        comma = "; " if any("," in choice for choice in draft.choices) else ", "
        prompt = f"{stem}: {comma.join(draft.choices[:-1])} or {draft.choices[-1]}?"
    return Rendered(draft.layout.before + prompt + draft.cue, draft.choices, False)
