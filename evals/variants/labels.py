"""Other labels than A, B, C, D."""

from dataclasses import replace
from random import Random

from pydantic import field_validator

from evals.question import Draft
from evals.variants import NotApplicable, Variant

SETS = {"numerals": "一二三四五六七八九十", "stems": "甲乙丙丁戊己庚辛壬癸", "digits": "1234567890"}


class Labels(Variant):
    """A/B/C/D become 一/二/三/四 (numerals), 甲/乙/丙/丁 (stems) or 1-4 (digits), in the prompt and as answers.

    `symbols`: a name of SETS, or the labels themselves as one text, such as "★▲■●"."""

    name = "labels"
    independent = True
    draws = False
    several = True
    symbols: str = "numerals"

    @field_validator("symbols")
    @classmethod
    def _different(cls, value: str) -> str:
        labels = SETS.get(value, value)
        if len(labels) < 2 or len(set(labels)) < len(labels) or any(label.isspace() for label in labels):
            raise ValueError(f"symbols is {value!r}; allowed: {', '.join(SETS)}, or different characters")
        return value

    @property
    def labels(self) -> str:
        """One character a label."""
        return SETS.get(self.symbols, self.symbols)

    def apply(self, draft: Draft, rng: Random) -> list[Draft]:
        if len(draft.choices) > len(self.labels):
            raise NotApplicable(f"has more than {len(self.labels)} options")
        return [replace(draft, labels=self.labels)]
