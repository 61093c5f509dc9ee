"""Answers that are generated: the forms that ask for them, and what a right one looks like."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from evals.extract import rule
from evals.extract.last_number import NUMBER
from evals.question import Draft, Generation, Rendered, list_options

ASKED = {"en": "Question: ", "zh": "问题："}
ANNOTATION = re.compile(r"<<[^<>]*>>")
_SHORT, _LONG = 16, 256  # tokens of a label, and of a worked solution


@dataclass(frozen=True)
class GeneratedForm:
    """Question (and options with labels, where it has some), and the answer is generated.

    `extract`, `stops` and `max_tokens` are by default what the item needs: labels end with their line; a solution is
    256 tokens at most and ends where the next question would begin (as in lm-eval's gsm8k).
    """

    extract: str = ""
    stops: tuple[str, ...] | None = None
    max_tokens: int = 0
    solution: bool = field(default=True, compare=True)  # shots show how the answer is found
    annotations: bool = False  # with its <<calculations>>

    def __call__(self, draft: Draft) -> Rendered:
        """Prompt and what is generated after it; nothing is scored."""
        asked = draft.layout.before or (ASKED[draft.lang] if not draft.choices else "")
        options = f"\n{list_options(draft)}" if draft.choices else ""
        generation = self.generation(draft)
        return Rendered(f"{asked}{draft.question}{options}{draft.cue}", (), bool(draft.choices), generation)

    def generation(self, draft: Draft) -> Generation:
        """How the draft's answer is generated and read."""
        name = self.extract or default_rule(draft)
        short = bool(draft.choices) or not (self.solution and draft.solution)
        stops = self.stops if self.stops is not None else (("\n",) if short else (ASKED[draft.lang].strip(),))
        tokens = self.max_tokens or (_SHORT if draft.choices else _LONG)
        labels = draft.labels[: len(draft.choices)]
        right = "".join(labels[place] for place in draft.rights) if draft.choices else draft.answer
        return Generation(rule(name).canonical(right), stops, tokens, name, labels)

    def worked(self, draft: Draft) -> str:
        """What a shot of this form says after the cue: the labels, or the solution and how the rule wants its end."""
        labels = draft.labels[: len(draft.choices)]
        right = "".join(labels[place] for place in draft.rights) if draft.choices else draft.answer
        closing = rule(self.extract or default_rule(draft)).closing(right, draft.lang)
        if draft.choices or not (self.solution and draft.solution):
            return closing
        steps = draft.solution if self.annotations else ANNOTATION.sub("", draft.solution)
        return f"{steps}\n{closing}"


def default_rule(draft: Draft) -> str:
    """By what the item is: labels, a number at the end of a solution, or a text."""
    if draft.choices:
        return "letters" if draft.golds else "letter"
    return "last_number" if NUMBER.fullmatch(draft.answer.strip()) else "stated" if draft.solution else "exact"


open_form = GeneratedForm()
