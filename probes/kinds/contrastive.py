"""Pairs of texts, a right one against a wrong one: minimal pairs, statements of facts."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from pydantic import Field

from argosy.core.statistics.metric import Metric, share
from argosy.evidence.results.items import digest
from argosy.evidence.results.suite import locate
from argosy.model.infer.model import LanguageModel
from argosy.model.infer.rows import Score, problem
from probes.kinds import Measurement, Probe, Scope
from probes.sources import Case, FactSource, Pair, read_facts, read_pairs


@dataclass(frozen=True)
class _Scored:
    """The scores of one text of a pair."""

    whole: Score
    text: str
    partial: Score | None
    """score of the text that follows it, given it"""
    prior: Score | None
    """score of the text itself after a context that says nothing"""


class Contrastive(Probe):
    """Perplexity of the right text against the wrong one's.

    Measures: acc (the right one's whole probability is higher: BLiMP's, Warstadt et al. 2020), acc_token, acc_byte and
    acc_char (its perplexity a token, a UTF-8 byte, a character is lower: fair to unequal lengths; no acc_char where
    characters are bytes), margin (nats); acc_partial for pairs with `after` (its probability alone); acc_pmi for pairs
    with a `domain`: the likelihood given the context over the one given the domain. Equal is not right.

    One source of pairs: `pairs`, `file` or `facts`."""

    kind: ClassVar[str] = "contrastive"
    declared: ClassVar[Mapping[str, Metric]] = {
        "acc": share(), "acc_token": share(minor=True), "acc_byte": share(minor=True), "acc_char": share(),
        "margin": Metric("higher", minor=True), "acc_partial": share(), "acc_pmi": share()}  # fmt: skip
    pairs: tuple[Pair, ...] = ()
    file: str = ""
    """JSONL, or a folder of them: BLiMP"""
    facts: FactSource | None = None
    """a statement of a fact, and the same statement with another fact's answer"""
    group_by: str = ""
    """a key of the file's lines; each of its values has an acc too, as `<value>/acc`"""
    most: int | None = Field(None, ge=1)
    """pairs of each file, its first ones"""
    domain: str | None = None
    """domain of pairs without their own"""

    def check_fields(self) -> None:
        if sum([bool(self.pairs), bool(self.file), self.facts is not None]) != 1:
            raise ValueError("give one of pairs, file, facts")
        if self.group_by and not self.file:
            raise ValueError("group_by is a key of a file's lines: it needs file")

    def measure(self, model: LanguageModel, scope: Scope) -> Measurement:
        """Score every pair; several pairs of one fact are one cluster."""
        result = Measurement()
        cases = self._cases(scope, result)
        scored = _score(model, cases)
        for number, case in enumerate(cases):
            a, b = scored[2 * number], scored[2 * number + 1]
            if case.pair.good == case.pair.bad:
                result.left_out["good and bad are the same"] += 1
                continue
            parts = [score for each in (a, b) for score in (each.whole, each.partial, each.prior) if score is not None]
            if why := problem(parts):
                result.left_out[why] += 1
                continue
            pair = case.pair
            row: dict[str, object] = {"id": f"{case.cluster}#{number}", "cluster": case.cluster}
            row |= {"group": case.group} if case.group else {}
            row["asked"] = digest(pair.context, pair.good, pair.bad, pair.after, pair.domain)
            result.rows.append({**row, **_compare(a, b), "texts": [pair.good, pair.bad]})
        plain = all(text.isascii() for row in result.rows for text in row["texts"])
        result.add_means(name for name in self.declared if not plain or name != "acc_char")  # else it is acc_byte
        for group in sorted({str(row["group"]) for row in result.rows if "group" in row}):
            result.add_means(["acc"], [row for row in result.rows if row.get("group") == group], group)
        return result

    def _cases(self, scope: Scope, result: Measurement) -> list[Case]:
        if self.facts is not None:
            cloze, result.left_out = read_facts(self.facts, scope.data, scope.seed, scope.limit)
            cases = [Case(Pair(good=s[0], bad=wrong), fact.id)
                     for fact in cloze for s in fact.statements() for wrong in s[1:]]
        elif self.pairs:
            cases = [Case(pair, str(number)) for number, pair in enumerate(self.pairs)]
        else:
            most = min((n for n in (self.most, scope.limit) if n), default=None)
            cases = read_pairs(locate(self.file, scope.data, "pairs of texts"), self.group_by, most, result.left_out)
        if self.domain is None:
            return cases
        return [case if case.pair.domain is not None
                else Case(case.pair.model_copy(update={"domain": self.domain}), case.cluster, case.group)
                for case in cases]


def _score(model: LanguageModel, cases: Sequence[Case]) -> list[_Scored]:
    texts = [(case.pair, text) for case in cases for text in (case.pair.good, case.pair.bad)]
    alone = [text + pair.after for pair, text in texts if not pair.context]
    free = iter(model.text_loglikelihood(alone) if alone else [])
    each = [(number // 2, text) for number, text in enumerate(texts)]
    requests = [(("whole", case), (pair.context, text + pair.after)) for case, (pair, text) in each if pair.context]
    requests += [(("after", case), (pair.context + text, pair.after)) for case, (pair, text) in each if pair.after]
    requests += [(("domain", case), (pair.domain, text)) for case, (pair, text) in each if pair.domain is not None]
    items, pairs = [item for item, _ in requests], [pair for _, pair in requests]
    scores = iter(model.loglikelihood(pairs, items) if pairs else [])
    wholes = [next(scores) if pair.context else next(free) for pair, _ in texts]
    partials = [next(scores) if pair.after else None for pair, _ in texts]
    priors = [next(scores) if pair.domain is not None else None for pair, _ in texts]
    return [_Scored(whole, text + pair.after, tail, prior)
            for (pair, text), whole, tail, prior in zip(texts, wholes, partials, priors, strict=True)]


def _compare(a: _Scored, b: _Scored) -> dict[str, object]:
    right, wrong = a.whole.logprob, b.whole.logprob
    row: dict[str, object] = {
        "acc": right > wrong, "acc_token": right / a.whole.tokens > wrong / b.whole.tokens,
        "acc_byte": right / len(a.text.encode()) > wrong / len(b.text.encode()),
        "acc_char": right / len(a.text) > wrong / len(b.text), "margin": right - wrong,
        "scores": [round(right, 5), round(wrong, 5)]}
    if a.partial and b.partial:
        row["acc_partial"] = a.partial.logprob > b.partial.logprob
    if a.prior and b.prior:
        row["acc_pmi"] = right - a.prior.logprob > wrong - b.prior.logprob
    return row
