"""Prob(text | prefix): how likely the model goes on with a given text."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, ClassVar

from pydantic import Field

from argosy.config import Config
from argosy.evaluation.language_model import LanguageModel
from argosy.statistics.intervals import mean
from probes.probe import Measured, Probe, Scope

if TYPE_CHECKING:
    import torch


class Case(Config):
    """`text` is expected right after `prefix`; a space between them is written in `text`."""

    prefix: str
    text: str = Field(min_length=1)


class NextToken(Probe):
    """Such as Prob("{" | "... as JSON").

    Measures: prob (of the text's tokens, in nats' exponent: the product over them), mass (of all first tokens
    that begin with the text or that the text begins with whole: a tokenizer may have `{"` as one token), rank of
    the first token (1 = the likeliest), and top (share of cases whose first token is among the `top` likeliest).

    `chat`: the prefix is a user's turn, where the checkpoint is evaluated in its chat template.
    """

    kind: ClassVar[str] = "next_token"
    cases: tuple[Case, ...] = Field(min_length=1)
    top: int = Field(5, ge=1)
    chat: bool = False

    def measure(self, model: LanguageModel, scope: Scope) -> Measured:
        """Score every case."""
        chat = self.chat and scope.chat
        pairs = [
            (model.chat(case.prefix), model.answer(case.text.lstrip())) if chat else (case.prefix, case.text)
            for case in self.cases
        ]
        found = Measured()
        scores = model.loglikelihood(pairs)
        encoded = model.encode_pairs(pairs)
        usable = [index for index, (_, tokens) in enumerate(encoded) if tokens and math.isfinite(scores[index].logprob)]
        distributions = dict(model.scorer.next_token([encoded[index][0] for index in usable]))
        for place, index in enumerate(usable):
            logprobs = distributions[place]
            rank = 1 + int((logprobs > logprobs[encoded[index][1][0]]).sum())
            mass = _mass(model, logprobs, pairs[index][1])
            row = {"id": str(index), "prob": math.exp(scores[index].logprob), "mass": mass, "rank": rank}
            found.rows.append({**row, "scores": [round(scores[index].logprob, 5)]})
        if len(usable) < len(self.cases):
            found.left_out["not a number"] = len(self.cases) - len(usable)
        if usable:
            for name in ("prob", "mass", "rank"):
                found.measures[name] = mean([row[name] for row in found.rows])
            found.measures[f"top{self.top}"] = mean([float(row["rank"] <= self.top) for row in found.rows])
        return found


def _mass(model: LanguageModel, logprobs: torch.Tensor, text: str) -> float:
    """Probability of the first tokens that start `text`: longer ones that begin with it, or its own first."""
    texts = model.vocabulary()
    longer = [index for index, token in enumerate(texts) if token.startswith(text)]
    return float(logprobs[longer].double().exp().sum()) if longer else 0.0
