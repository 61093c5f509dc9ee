"""The answer is generated, not chosen among continuations."""

from dataclasses import replace
from random import Random
from typing import Annotated

from pydantic import Field, field_validator

from evals.extract import RULES
from evals.question import Draft
from evals.records import ONE_OR_SEVERAL
from evals.variants import GeneratedForm, Variant

Text = Annotated[str, Field(min_length=1)]


class Generative(Variant):
    """The model writes after the prompt of the chain's form (by default the published one), and a rule reads the
    answer: a label where the prompt has labels, else the option's text.

    Works on open items, and on several right options at once ("AC"). `extract`: a rule of evals/extract, `stops`: a
    text or texts that end the answer, `max_tokens`: its length; by default by the item (`GeneratedForm`).
    `solution`: shots show the worked solution where there is one, `annotations`: with its <<calculations>>."""

    name = "generative"
    draws = False
    open = True
    several = True
    extract: str = ""
    stops: Annotated[tuple[Text, ...] | None, ONE_OR_SEVERAL] = None
    max_tokens: int = Field(0, ge=0)
    solution: bool = True
    annotations: bool = False

    @field_validator("extract")
    @classmethod
    def _is_a_rule(cls, name: str) -> str:
        if name and name not in RULES:
            raise ValueError(f"extract: {RULES.unknown(name)}")
        return name

    def apply(self, draft: Draft, rng: Random) -> list[Draft]:
        asked = draft.form.asked if isinstance(draft.form, GeneratedForm) else draft.form
        form = GeneratedForm(self.extract, self.stops, self.max_tokens, self.solution, self.annotations, asked)
        return [replace(draft, form=form)]
