"""Copying from the context: how much likelier a sequence is the second time."""

from collections.abc import Mapping
from random import Random
from typing import ClassVar

from pydantic import Field

from argosy.core.config.schema import Config
from argosy.core.statistics.metric import Metric, share
from argosy.evidence.results.items import digest
from argosy.model.infer.encoder import token_bytes
from argosy.model.infer.model import LanguageModel
from argosy.model.infer.rows import Tokens, problem
from probes.kinds import NATS, Measurement, Probe, Scope


class RandomTokens(Config):
    """Sequences of tokens drawn evenly from the vocabulary, special ones aside: nothing but copying predicts them."""

    length: int = Field(32, ge=2)
    """tokens of a sequence"""
    samples: int = Field(20, ge=1)
    """sequences"""


class Copying(Probe):
    """Loss of a sequence that the context has in full, against its loss the first time (Olsson et al. 2022).

    Measures: nats (per token, the second time), gain (nats per token that the second time is lower by), copied (share
    of sequences that greedy decoding repeats whole, given their first token).

    One source: `random`, or `texts`, each twice with `between` in the middle."""

    kind: ClassVar[str] = "copying"
    declared: ClassVar[Mapping[str, Metric]] = {"nats": NATS, "gain": Metric("higher", "nats"), "copied": share()}
    random: RandomTokens | None = None
    texts: tuple[str, ...] = ()
    between: str = "\n\n"
    """text between the two copies of a text"""

    def check_fields(self) -> None:
        if (self.random is None) == (not self.texts):
            raise ValueError("give one of random, texts")
        if not all(self.texts):
            raise ValueError("texts has an empty text; allowed: texts of two tokens or more")

    def measure(self, model: LanguageModel, scope: Scope) -> Measurement:
        """Score each sequence's tokens but its first, after its first copy and without it."""
        result = Measurement()
        cases = [(sequence, between) for sequence, between in self.sequences(model, scope) if len(sequence) > 1]
        start = (model.prefix_token,)
        requests = [(context, sequence[1:]) for sequence, between in cases for context in
                    ((*start, sequence[0]), (*start, *sequence, *between, sequence[0]))]  # fmt: skip
        scores = iter(model.scorer.score(requests))
        for number, (sequence, between) in enumerate(cases):
            first, second = next(scores), next(scores)
            if len(start) + 2 * len(sequence) + len(between) > model.max_length:
                result.left_out["two copies are longer than the model"] += 1
            elif why := problem((first, second)):
                result.left_out[why] += 1
            else:
                n = len(sequence) - 1
                result.rows.append({
                    "id": str(number), "asked": digest(sequence, between), "nats": -second.logprob / n,
                    "gain": (second.logprob - first.logprob) / n, "copied": second.greedy,
                    "scores": [round(first.logprob, 5), round(second.logprob, 5)]})  # fmt: skip
        if short := len(self.texts) and len(self.texts[: scope.limit]) - len(cases):
            result.left_out["a text of one token"] += short
        result.add_means(self.declared)
        return result

    def sequences(self, model: LanguageModel, scope: Scope) -> list[tuple[Tokens, Tokens]]:
        """Return (tokens of a sequence, tokens between its copies)."""
        if self.random is None:
            between = model.encode([self.between], special=False)[0] if self.between else ()
            return [(tokens, between) for tokens in model.encode(self.texts[: scope.limit], special=False)]
        usable = [index for index, token in enumerate(token_bytes(model.tokenizer).of) if token]
        count = min(self.random.samples, scope.limit or self.random.samples)
        rngs = [Random(f"{scope.seed}/copying/{number}") for number in range(count)]
        return [(tuple(rng.choices(usable, k=self.random.length)), ()) for rng in rngs]
