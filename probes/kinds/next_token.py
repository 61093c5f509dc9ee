"""Prob(text | prefix): how likely the model goes on with a given text."""

from __future__ import annotations

import math
from typing import Annotated, ClassVar, Literal, Self

from pydantic import Field, model_validator

from argosy.config import Config
from argosy.evaluation.asked import digest
from argosy.evaluation.language_model import LanguageModel
from argosy.statistics.intervals import mean
from probes.continuation import Continuation, continuations
from probes.measures import distinct, log_sum
from probes.probe import FILLED, Measured, Probe, Scope


class Case(Config):
    """`text` is expected right after `prefix`, or one of several texts; a space between them is written in `text`.

    `against`: texts that are not expected, to be held against it.
    """

    prefix: str
    text: str | tuple[str, ...]
    against: tuple[str, ...] = ()

    @property
    def texts(self) -> tuple[str, ...]:
        """All that count."""
        return (self.text,) if isinstance(self.text, str) else self.text

    @model_validator(mode="after")
    def _not_empty(self) -> Self:
        if not self.texts or not all((*self.texts, *self.against)):
            raise ValueError("text is empty; allowed: a text, or a list of texts, none of them empty (so with against)")
        return self


class NextToken(Probe):
    """Such as Prob("{" | "... as JSON").

    Measures, means over the cases: prob (of the text's own tokens, by the chain rule), mass (that the next bytes are
    the text's, however they are cut into tokens: comparable across tokenizers), rank of the first token (1 = the
    likeliest), top<n> (share of cases whose first token is among the `top` likeliest), nats (-log mass; the mean that
    one likely case does not decide); merged, where a text shares a token with its prefix: the share of such cases.
    Of several texts the probabilities add up, and the best rank counts. With `against`: share (of the probability of
    both), acc (share > 1/2), log_odds.

    `chat`: the prefix is a user's turn, where the checkpoint is evaluated in its chat template. `space: either`: a text
    counts with and without a space before it.
    """

    kind: ClassVar[str] = "next_token"
    cases: Annotated[tuple[Case, ...], FILLED]
    top: int = Field(5, ge=1)
    chat: bool = False
    space: Literal["as_written", "either"] = "as_written"

    def measure(self, model: LanguageModel, scope: Scope) -> Measured:
        """Score every case."""
        asked = [self._pairs(model, case, self.chat and scope.chat) for case in self.cases]
        found = Measured()
        scored = iter(continuations(model, [pair for right, wrong in asked for pair in (*right, *wrong)]))
        for number, (case, (right, wrong)) in enumerate(zip(self.cases, asked, strict=True)):
            values = [[next(scored) for _ in pairs] for pairs in (right, wrong)]
            problem = next((each.problem for group in values for each in group if each.problem), "")
            if problem:
                found.left_out[problem] += 1
            else:
                asked_as = digest(case.prefix, case.texts, case.against, self.space, self.chat)
                found.rows.append({"id": str(number), "prompt": case.prefix, "asked": asked_as,
                                   **_row(values[0], values[1])})  # fmt: skip
        if found.rows:
            self._summarize(found)
        return found

    def _pairs(self, model: LanguageModel, case: Case, chat: bool) -> tuple[list[tuple[str, str]], ...]:
        prefix = model.chat(case.prefix) if chat else case.prefix
        groups = []
        for texts in (case.texts, case.against):
            forms = [model.answer(text.lstrip()) if chat else text for text in texts]
            if self.space == "either":
                bare = [text.lstrip(" ") for text in forms]
                forms = [*bare, *(" " + text for text in bare)]
            groups.append([(prefix, text) for text in distinct(text for text in forms if text)])
        return tuple(groups)

    def _summarize(self, found: Measured) -> None:
        rows = found.rows
        for name in ("prob", "mass", "rank", "nats"):
            found.measures[name] = mean([float(row[name]) for row in rows])
        found.measures[f"top{self.top}"] = mean([float(row["rank"] <= self.top) for row in rows])
        for name in ("share", "acc", "log_odds"):
            if values := [float(row[name]) for row in rows if name in row]:
                found.measures[name] = mean(values)
        if any(row["merged"] for row in rows):
            found.measures["merged"] = mean([float(row["merged"]) for row in rows])


def _row(right: list[Continuation], wrong: list[Continuation]) -> dict[str, object]:
    mass = log_sum(each.logmass for each in right)
    row: dict[str, object] = {
        "prob": math.exp(log_sum(each.logprob for each in right)),
        "mass": math.exp(mass),
        "nats": -mass,
        "rank": min(each.rank for each in right),
        "merged": any(each.merged for each in right),
        "scores": [round(each.logprob, 5) for each in (*right, *wrong)],
    }
    if wrong:
        log_odds = mass - log_sum(each.logmass for each in wrong)
        row |= {"log_odds": log_odds, "share": 1 / (1 + math.exp(min(-log_odds, 700.0))), "acc": log_odds > 0}
    return row
