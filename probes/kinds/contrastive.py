"""Which of two sentences a model finds likelier: minimal pairs, a right statement against a wrong one."""

from __future__ import annotations

import math
from pathlib import Path
from typing import ClassVar, Self

from pydantic import Field, model_validator

from argosy.config import Config
from argosy.documents.jsonl import read_jsonl
from argosy.errors import InputError
from argosy.evaluation.language_model import LanguageModel
from argosy.evaluation.scoring import Score
from argosy.statistics.intervals import mean
from probes.facts import FactSource, read_facts
from probes.probe import Measured, Probe, Scope


class Pair(Config):
    """A sentence that is right and one that is wrong."""

    good: str = Field(min_length=1)
    bad: str = Field(min_length=1)


class Contrastive(Probe):
    """Perplexity of the right sentence against the wrong one's.

    Measures: acc (the right one's whole probability is higher: BLiMP's, Warstadt et al. 2020), acc_token and
    acc_byte (its perplexity a token, a UTF-8 byte is lower: fair to sentences of unequal length), margin (nats).

    One source of pairs: `pairs`, `file` (JSONL with good/bad or BLiMP's sentence_good/sentence_bad), or `facts`
    (a statement of a fact, and the same statement with another fact's answer).
    """

    kind: ClassVar[str] = "contrastive"
    pairs: tuple[Pair, ...] = ()
    file: str = ""
    facts: FactSource | None = None

    @model_validator(mode="after")
    def _one_source(self) -> Self:
        if sum([bool(self.pairs), bool(self.file), self.facts is not None]) != 1:
            raise ValueError("give one of pairs, file, facts")
        return self

    def measure(self, model: LanguageModel, scope: Scope) -> Measured:
        """Score every pair; several pairs of one fact are one cluster."""
        found = Measured()
        cases = self._cases(scope, found)
        scores = model.text_loglikelihood([text for _, good, bad in cases for text in (good, bad)])
        clusters = []
        for number, (case, good, bad) in enumerate(cases):
            a, b = scores[2 * number], scores[2 * number + 1]
            if not (math.isfinite(a.logprob) and math.isfinite(b.logprob) and a.tokens and b.tokens):
                found.left_out["not a number"] += 1
                continue
            clusters.append(case)
            found.rows.append({"id": f"{case}#{number}", **_compare(a, b, good, bad)})
        for name in ("acc", "acc_token", "acc_byte", "margin") if found.rows else ():
            found.measures[name] = mean([float(row[name]) for row in found.rows], clusters)
        return found

    def _cases(self, scope: Scope, found: Measured) -> list[tuple[str, str, str]]:
        if self.facts is not None:
            cloze, found.left_out = read_facts(self.facts, scope)
            return [(fact.id, s[0], wrong) for fact in cloze for s in fact.statements() for wrong in s[1:]]
        if self.pairs:
            return [(str(number), pair.good, pair.bad) for number, pair in enumerate(self.pairs)]
        cases = []
        for number, record in enumerate(read_jsonl(Path(self.file))):
            good = record.get("good", record.get("sentence_good"))
            bad = record.get("bad", record.get("sentence_bad"))
            if isinstance(good, str) and isinstance(bad, str) and good and bad:
                cases.append((str(number), good, bad))
            else:
                found.left_out["no pair of sentences"] += 1
        if not cases:
            raise InputError(f"{self.file} has no pair; its lines need good and bad (or sentence_good, sentence_bad)")
        return cases[: scope.limit]


def _compare(a: Score, b: Score, good: str, bad: str) -> dict[str, object]:
    return {
        "acc": a.logprob > b.logprob,
        "acc_token": a.logprob / a.tokens > b.logprob / b.tokens,
        "acc_byte": a.logprob / len(good.encode()) > b.logprob / len(bad.encode()),
        "margin": a.logprob - b.logprob,
        "scores": [round(a.logprob, 5), round(b.logprob, 5)],
    }
