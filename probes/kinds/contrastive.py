"""Which of two texts a model finds likelier: minimal pairs, a right statement against a wrong one."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Self

from pydantic import Field, model_validator

from argosy.evaluation.asked import digest
from argosy.evaluation.language_model import LanguageModel
from argosy.evaluation.named_files import locate
from argosy.evaluation.scoring import Score
from argosy.statistics.intervals import mean
from probes.facts import FactSource, read_facts
from probes.pairs import Case, Pair, read_pairs
from probes.probe import Measured, Probe, Scope

ALWAYS = ("acc", "acc_token", "acc_byte", "acc_char", "margin")


@dataclass(frozen=True)
class _Scored:
    """Of one text of a pair: itself, what stands behind it given it, and itself where its context says nothing."""

    whole: Score
    text: str
    partial: Score | None
    prior: Score | None


class Contrastive(Probe):
    """Perplexity of the right text against the wrong one's.

    Measures: acc (the right one's whole probability is higher: BLiMP's, Warstadt et al. 2020), acc_token, acc_byte
    and acc_char (its perplexity a token, a UTF-8 byte, a character is lower: fair to texts of unequal length; where a
    character is a byte there is no acc_char), margin (nats); acc_partial for pairs with `after` (its probability
    alone); acc_pmi for pairs with a `domain`: the likelihood given the context over the one given the domain. Equal is
    not right.

    One source of pairs: `pairs`, `file` (JSONL, or a folder of them: BLiMP), or `facts` (a statement of a fact, and
    the same statement with another fact's answer). `group_by`: a key of the lines; each of its values has an
    acc too, as `<value>/acc`. `most`: pairs of each file, its first ones. `domain`: of pairs without their own.
    """

    kind: ClassVar[str] = "contrastive"
    pairs: tuple[Pair, ...] = ()
    file: str = ""
    facts: FactSource | None = None
    group_by: str = ""
    most: int | None = Field(None, ge=1)
    domain: str | None = None

    @model_validator(mode="after")
    def _one_source(self) -> Self:
        if sum([bool(self.pairs), bool(self.file), self.facts is not None]) != 1:
            raise ValueError("give one of pairs, file, facts")
        if self.group_by and not self.file:
            raise ValueError("group_by is a key of a file's lines: it needs file")
        return self

    def measure(self, model: LanguageModel, scope: Scope) -> Measured:
        """Score every pair; several pairs of one fact are one cluster."""
        found = Measured()
        cases = self._cases(scope, found)
        scored = _score(model, cases)
        for number, case in enumerate(cases):
            a, b = scored[2 * number], scored[2 * number + 1]
            if case.pair.good == case.pair.bad:
                found.left_out["good and bad are the same"] += 1
                continue
            if not all(math.isfinite(score.logprob) and score.tokens for each in (a, b) for score in _parts(each)):
                found.left_out["not a number"] += 1
                continue
            pair = case.pair
            row: dict[str, object] = {"id": f"{case.cluster}#{number}", "cluster": case.cluster}
            row |= {"group": case.group} if case.group else {}
            row["asked"] = digest(pair.context, pair.good, pair.bad, pair.after, pair.domain)
            found.rows.append({**row, **_compare(a, b), "texts": [pair.good, pair.bad]})
        self._summarize(found)
        return found

    def _summarize(self, found: Measured) -> None:
        groups = sorted({str(row["group"]) for row in found.rows if "group" in row})
        for group in ("", *groups):
            rows = [row for row in found.rows if not group or row.get("group") == group]
            for name in self._names(rows) if not group else ("acc",):
                own = [row for row in rows if name in row]
                if own:
                    where = f"{group}/{name}" if group else name
                    found.measures[where] = mean([float(row[name]) for row in own], [row["cluster"] for row in own])

    @staticmethod
    def _names(rows: Sequence[dict[str, Any]]) -> tuple[str, ...]:
        """Measures that say something: where a character is a byte, acc_char is acc_byte."""
        plain = all(text.isascii() for row in rows for text in row["texts"])
        return (*(name for name in ALWAYS if not plain or name != "acc_char"), "acc_partial", "acc_pmi")

    def _cases(self, scope: Scope, found: Measured) -> list[Case]:
        if self.facts is not None:
            cloze, found.left_out = read_facts(self.facts, scope)
            cases = [Case(Pair(good=s[0], bad=wrong), fact.id)
                     for fact in cloze for s in fact.statements() for wrong in s[1:]]
        elif self.pairs:
            cases = [Case(pair, str(number)) for number, pair in enumerate(self.pairs)]
        else:
            most = min((n for n in (self.most, scope.limit) if n), default=None)
            cases = read_pairs(locate(self.file, scope.data, "pairs of texts"), self.group_by, most, found.left_out)
        if self.domain is None:
            return cases
        return [case if case.pair.domain is not None
                else Case(case.pair.model_copy(update={"domain": self.domain}), case.cluster, case.group)
                for case in cases]


def _score(model: LanguageModel, cases: Sequence[Case]) -> list[_Scored]:
    """The right and the wrong text of each case, in this order."""
    texts = [(case.pair, text) for case in cases for text in (case.pair.good, case.pair.bad)]
    alone = [text + pair.after for pair, text in texts if not pair.context]
    free = iter(model.text_loglikelihood(alone) if alone else [])
    bound = [(pair.context, text + pair.after) for pair, text in texts if pair.context]
    partial = [(pair.context + text, pair.after) for pair, text in texts if pair.after]
    prior = [(pair.domain, text) for pair, text in texts if pair.domain is not None]
    scores = iter(model.loglikelihood([*bound, *partial, *prior]) if bound or partial or prior else [])
    found = []
    wholes = [next(scores) if pair.context else next(free) for pair, _ in texts]
    partials = [next(scores) if pair.after else None for pair, _ in texts]
    priors = [next(scores) if pair.domain is not None else None for pair, _ in texts]
    for (pair, text), whole, tail, prior_score in zip(texts, wholes, partials, priors, strict=True):
        found.append(_Scored(whole, text + pair.after, tail, prior_score))
    return found


def _parts(scored: _Scored) -> list[Score]:
    return [score for score in (scored.whole, scored.partial, scored.prior) if score is not None]


def _compare(a: _Scored, b: _Scored) -> dict[str, object]:
    right, wrong = a.whole.logprob, b.whole.logprob
    row: dict[str, object] = {
        "acc": right > wrong,
        "acc_token": right / a.whole.tokens > wrong / b.whole.tokens,
        "acc_byte": right / len(a.text.encode()) > wrong / len(b.text.encode()),
        "acc_char": right / len(a.text) > wrong / len(b.text),
        "margin": right - wrong,
        "scores": [round(right, 5), round(wrong, 5)],
    }
    if a.partial and b.partial:
        row["acc_partial"] = a.partial.logprob > b.partial.logprob
    if a.prior and b.prior:
        row["acc_pmi"] = right - a.prior.logprob > wrong - b.prior.logprob
    return row
