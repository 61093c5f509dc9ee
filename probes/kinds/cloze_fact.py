"""A fact's answer among others of its kind, over several wordings."""

from collections.abc import Mapping
from itertools import chain
from typing import Any, ClassVar

from argosy.core.statistics.metric import Metric, probability, share
from argosy.evidence.results.items import digest
from argosy.model.infer.model import LanguageModel
from argosy.model.infer.rows import problem
from probes.kinds import Measurement, Probe, Scope
from probes.measures import closed_set
from probes.sources import ClozeFact, FactSource, read_facts


class ClozeFactProbe(Probe):
    """"The capital of France is" -> Paris, against other capitals (LAMA, Petroni et al. 2019; BEAR, Wiland et al.
    2024: candidates by probability; ParaRel, Elazar et al. 2021: consistency over wordings).

    Measures: acc and acc_byte (the answer is the likeliest, whole or a byte), consistency (all wordings choose the
    same, right or wrong), acc_all (right in all wordings), prob (the answer's share of the candidates' probability)."""

    kind: ClassVar[str] = "cloze_fact"
    declared: ClassVar[Mapping[str, Metric]] = {
        "acc": share(), "acc_byte": share(minor=True), "consistency": share(minor=True), "acc_all": share(minor=True),
        "prob": probability()}  # fmt: skip
    facts: FactSource = FactSource()

    def measure(self, model: LanguageModel, scope: Scope) -> Measurement:
        """Score every fact in every wording; the fact is the unit of errors."""
        facts, left_out = read_facts(self.facts, scope.data, scope.seed, scope.limit)
        result = Measurement(left_out=left_out)
        pairs = [(p, fact.gap + c) for fact in facts for p in fact.prefixes for c in fact.candidates]
        items = [(n, p) for n, fact in enumerate(facts) for p in fact.prefixes for _ in fact.candidates]
        scores = iter(model.loglikelihood(pairs, items))
        for fact in facts:
            own = [[next(scores) for _ in fact.candidates] for _ in fact.prefixes]
            if why := problem(chain(*own)):
                result.left_out[why] += 1
            else:
                result.rows.append(_row(fact, [[score.logprob for score in each] for each in own]))
        result.add_means(self.declared)
        return result


def _row(fact: ClozeFact, values: list[list[float]]) -> dict[str, Any]:
    chosen, shares = closed_set(fact.candidates, values)
    return {
        "id": fact.id, "asked": digest(fact.prefixes, fact.gap, fact.candidates), **shares,
        "consistency": float(len(set(chosen)) == 1), "acc_all": float(set(chosen) == {0}), "chosen": chosen,
        "scores": [[round(value, 5) for value in v] for v in values]}
