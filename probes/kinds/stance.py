"""Stances on disputed questions: which of two opposite statements a model finds less surprising."""

import math
from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field

from argosy.core.config.schema import Config
from argosy.core.statistics.metric import Metric, share
from argosy.evidence.results.items import digest
from argosy.model.infer.model import LanguageModel
from argosy.model.infer.rows import Score, problem
from probes.kinds import FILLED, Measurement, Probe, Scope

BITS_A_BYTE = Metric("neither", "bits")


class Form(Config):
    """Two opposite statements in one wording."""

    a: str = Field(min_length=1)
    """statement of side a"""
    b: str = Field(min_length=1)
    """statement of side b"""
    affirms: Literal["a", "b"]
    """side whose statement is the affirmed one; the other side's is its negation"""


class Topic(Config):
    """A question with two sides, in wordings that affirm each side equally often."""

    name: str
    forms: tuple[Form, ...] = Field(min_length=2)

    def check_fields(self) -> None:
        counts = [sum(form.affirms == side for form in self.forms) for side in "ab"]
        if counts[0] != counts[1]:
            raise ValueError(f"topic {self.name!r} affirms side a in {counts[0]} forms and side b in {counts[1]}; "
                             "allowed: equally many. Add a form that affirms the other side")
        if same := next((form.a for form in self.forms if form.a == form.b), ""):
            raise ValueError(f"topic {self.name!r}: both sides say {same!r}; write opposite statements")


class Stance(Probe):
    """Contrastive perplexity of the two sides of a topic, balanced both ways.

    A model that finds any negation surprising would seem to hold whatever is affirmed: each side is affirmed in half of
    a topic's forms, so that this cancels out of `lean`. Values are bits per UTF-8 byte of whole sentences.

    Measures: lean (mean over topics and forms of b's perplexity less a's: positive for side a), strength (mean of the
    absolute leans of topics), consistency (share of topics whose forms all agree, less the affirmation of the other
    topics), affirmation (mean of what the affirmed statement is less surprising by; 0 is fair); `<topic>/lean`. With
    `wanted`: acc, the share of topics whose lean is to that side."""

    kind: ClassVar[str] = "stance"
    declared: ClassVar[Mapping[str, Metric]] = {
        "lean": BITS_A_BYTE, "strength": BITS_A_BYTE, "consistency": share(),
        "affirmation": Metric("zero", "bits"), "acc": share(chance=0.5)}  # fmt: skip
    topics: Annotated[tuple[Topic, ...], FILLED]
    context: str = ""
    """text before every statement, such as "I believe that"; a space after it is written in it"""
    wanted: Literal["", "a", "b"] = ""
    """side that a model should be on, of topics about values; empty: none"""

    def check_fields(self) -> None:
        names = [topic.name for topic in self.topics]
        if twice := next((name for name in names if names.count(name) > 1 or "/" in name), ""):
            raise ValueError(f"topics has the name {twice!r} twice or with a slash; allowed: different names without /")

    def measure(self, model: LanguageModel, scope: Scope) -> Measurement:
        """Score both statements of every form as documents of their own."""
        result = Measurement()
        topics = self.topics[: scope.limit]
        texts = [self.context + text for topic in topics for form in topic.forms for text in (form.a, form.b)]
        scores = iter(model.text_loglikelihood(texts))
        for topic in topics:
            pairs = [(next(scores), next(scores)) for _ in topic.forms]
            if why := problem([score for pair in pairs for score in pair]):
                result.left_out[why] += 1
                continue
            result.rows.append(self._row(topic, pairs))
        _add_consistency(result.rows)
        result.add_means(("lean", "strength", "consistency", "affirmation", "acc"))
        for row in result.rows:
            result.add_means(["lean"], [row], str(row["id"]))
        return result

    def _row(self, topic: Topic, pairs: list[tuple[Score, Score]]) -> dict[str, object]:
        leans = [_bits(b, self.context + form.b) - _bits(a, self.context + form.a)
                 for form, (a, b) in zip(topic.forms, pairs, strict=True)]
        affirmed = [lean if form.affirms == "a" else -lean for form, lean in zip(topic.forms, leans, strict=True)]
        lean = math.fsum(leans) / len(leans)
        row: dict[str, object] = {
            "id": topic.name, "asked": digest(self.context, [(form.a, form.b) for form in topic.forms]), "lean": lean,
            "strength": abs(lean), "affirmation": math.fsum(affirmed) / len(leans),
            "affirmed": [form.affirms for form in topic.forms], "scores": [round(each, 6) for each in leans]}
        return row | ({"acc": (lean > 0) if self.wanted == "a" else (lean < 0)} if self.wanted else {})


def _add_consistency(rows: list[dict[str, Any]]) -> None:
    """Add whether a topic's forms agree, less the affirmation of the other topics, which would part them all."""
    total = math.fsum(row["affirmation"] for row in rows)
    for row in rows:
        others = (total - row["affirmation"]) / max(1, len(rows) - 1)
        leans = [score - others if side == "a" else score + others
                 for score, side in zip(row["scores"], row["affirmed"], strict=True)]
        row["consistency"] = min(leans) > 0 or max(leans) < 0


def _bits(score: Score, text: str) -> float:
    return -score.logprob / math.log(2) / len(text.encode())
