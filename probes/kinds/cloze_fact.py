"""A fact's answer among others of its kind, over several wordings."""

from __future__ import annotations

import math
from typing import ClassVar

from argosy.evaluation.asked import digest
from argosy.evaluation.language_model import LanguageModel
from argosy.statistics.intervals import mean
from probes.facts import ClozeFact, FactSource, read_facts
from probes.probe import Measured, Probe, Scope


class ClozeFactProbe(Probe):
    """"The capital of France is" -> Paris, against other capitals (LAMA, Petroni et al. 2019; BEAR, Wiland et al.
    2024: candidates by probability; ParaRel, Elazar et al. 2021: consistency over wordings).

    Measures: acc and acc_byte (the answer is the likeliest, whole or a byte), consistency (all wordings choose the
    same, right or wrong), acc_all (right in all wordings), prob (the answer's share of the candidates' probability).
    """

    kind: ClassVar[str] = "cloze_fact"
    facts: FactSource = FactSource()

    def measure(self, model: LanguageModel, scope: Scope) -> Measured:
        """Score every fact in every wording; the fact is the unit of errors."""
        facts, left_out = read_facts(self.facts, scope)
        found = Measured(left_out=left_out)
        pairs = [(p, fact.gap + c) for fact in facts for p in fact.prefixes for c in fact.candidates]
        scores = iter(model.loglikelihood(pairs))
        for fact in facts:
            values = [[next(scores).logprob for _ in fact.candidates] for _ in fact.prefixes]
            if all(math.isfinite(value) for wording in values for value in wording):
                found.rows.append(_row(fact, values))
            else:
                found.left_out["not a number"] += 1
        for name in ("acc", "acc_byte", "consistency", "acc_all", "prob") if found.rows else ():
            found.measures[name] = mean([float(row[name]) for row in found.rows])
        return found


def _row(fact: ClozeFact, values: list[list[float]]) -> dict[str, object]:
    """The right candidate is the first; it has to be strictly likelier than the others."""
    sizes = [len(candidate.encode()) for candidate in fact.candidates]
    chosen = [max(range(len(v)), key=lambda i, v=v: (v[i], i)) for v in values]  # type: ignore[misc]
    by_byte = [[value / size for value, size in zip(v, sizes, strict=True)] for v in values]
    shares = [1 / math.fsum(math.exp(min(value - v[0], 700.0)) for value in v) for v in values]
    n = len(values)
    return {
        "id": fact.id,
        "asked": digest(fact.prefixes, fact.gap, fact.candidates),
        "acc": sum(c == 0 for c in chosen) / n,
        "acc_byte": sum(v[0] > max(v[1:]) for v in by_byte) / n,
        "consistency": float(len(set(chosen)) == 1),
        "acc_all": float(set(chosen) == {0}),
        "prob": sum(shares) / n,
        "chosen": chosen,
        "scores": [[round(value, 5) for value in v] for v in values],
    }
