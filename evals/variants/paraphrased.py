"""The question in other words."""

from __future__ import annotations

from dataclasses import dataclass, replace
from random import Random
from typing import ClassVar

from evals.paraphrases import stems, wraps
from evals.question import Draft
from evals.variants.registry import NotApplicable


@dataclass(frozen=True)
class Paraphrased:
    """`k` other wordings of the question, by rules that keep its meaning (evals/paraphrases.py); 0: all there are.

    `kind: stem`: how it asks ("Which of the following is" -> "Of the following, which is", 下列 -> 以下); items
    whose stem no rule knows are left out. `wrap`: words before it ("Here is a question."). `any`: a stem where a rule
    fits, else a wrap. With `k` above 1, consistency tells whether the wording changes what a model chooses.
    """

    name: ClassVar[str] = "paraphrased"
    open: ClassVar[bool] = True
    several: ClassVar[bool] = True
    k: int = 1
    kind: str = "any"

    def __post_init__(self) -> None:
        if not isinstance(self.k, int) or isinstance(self.k, bool) or self.k < 0:
            raise ValueError(f"k is {self.k!r}; allowed: 0 (all wordings) or a number of them")
        if self.kind not in ("any", "stem", "wrap"):
            raise ValueError(f"kind is {self.kind!r}; allowed: any, stem, wrap")

    def apply(self, draft: Draft, rng: Random) -> list[Draft]:
        """Drafts that differ in the question's words alone."""
        found = [] if self.kind == "wrap" else stems(draft.question, draft.lang)
        if self.kind == "stem" and not found:
            raise NotApplicable("its stem is of no known pattern")
        rng.shuffle(found)
        if self.kind != "stem":
            around = wraps(draft.question, draft.lang)
            rng.shuffle(around)
            found += around
        return [replace(draft, question=question) for question in found[: self.k or None]]
