"""The answer is generated, not chosen among continuations."""

from dataclasses import replace
from random import Random
from typing import Annotated

from pydantic import Field, field_validator

from evals.extract import RULES
from evals.metrics import PASS_AT
from evals.question import Draft
from evals.records import ONE_OR_SEVERAL
from evals.variants import GeneratedForm, Variant

Text = Annotated[str, Field(min_length=1)]


class Written(Variant):
    """Base of variants whose answers are generated.

    `extract`: a rule of evals/extract, `stops`: a text or texts that end the answer, `max_tokens`: its length; by
    default by the item. `samples` answers are drawn at `temperature`; the most frequent one counts (self-consistency,
    Wang et al. 2022), and `pass_at: [1, k]` measures whether one of k is right (Chen et al. 2021)."""

    draws = False
    open = True
    several = True
    extract: str = ""
    stops: Annotated[tuple[Text, ...] | None, ONE_OR_SEVERAL] = None
    max_tokens: int = Field(0, ge=0)
    samples: int = Field(1, ge=1)
    temperature: float = Field(0.0, ge=0)
    pass_at: tuple[int, ...] = ()

    @field_validator("extract")
    @classmethod
    def _is_a_rule(cls, name: str) -> str:
        if name and name not in RULES:
            raise ValueError(f"extract: {RULES.unknown(name)}")
        return name

    def check_fields(self) -> None:
        if self.samples > 1 and not self.temperature:
            raise ValueError(f"samples is {self.samples} at temperature 0, where all are the same: give a temperature "
                             "above 0 (0.7), or leave samples out")  # fmt: skip
        if unknown := [k for k in self.pass_at if k not in PASS_AT or k > self.samples]:
            allowed = ", ".join(str(k) for k in PASS_AT if k <= self.samples)
            raise ValueError(f"pass_at has {unknown[0]}; allowed with {self.samples} samples: {allowed}")

    @property
    def sampling(self) -> tuple[int, float, tuple[int, ...]]:
        """Return samples, temperature and pass_at of a Generation."""
        return self.samples, self.temperature, self.pass_at


class Generative(Written):
    """The model writes after the prompt of the chain's form (by default the published one), and a rule reads the
    answer: a label where the prompt has labels, else the option's text.

    Works on open items, and on several right options at once ("AC"). `solution`: shots of open items show the worked
    solution where there is one, `annotations`: with its <<calculations>>."""

    name = "generative"
    solution: bool = True
    annotations: bool = False

    def apply(self, draft: Draft, rng: Random) -> list[Draft]:
        asked = draft.form.asked if isinstance(draft.form, GeneratedForm) else draft.form
        form = GeneratedForm(self.extract, self.stops, self.max_tokens, self.solution, self.annotations, asked,
                             self.sampling)  # fmt: skip
        return [replace(draft, form=form)]
