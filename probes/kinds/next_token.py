"""Prob(text | prefix): the probability that the model goes on with a given text."""

import math
from collections.abc import Mapping
from typing import Annotated, ClassVar, Literal

from pydantic import Field

from argosy.core.config.schema import Config
from argosy.core.statistics.intervals import mean
from argosy.core.statistics.metric import Metric, probability, share
from argosy.evidence.results.items import digest
from argosy.model.infer.model import LanguageModel
from probes.kinds import FILLED, NATS, Measurement, Probe, Scope
from probes.measures import Continuation, distinct, grouped_continuations, log_sum


class Case(Config):
    """A prefix and the text that is expected right after it."""

    prefix: str
    text: str | tuple[str, ...]
    """one text or several; a space between prefix and text is written in the text"""
    against: tuple[str, ...] = ()
    """texts that are not expected, to be held against it"""

    @property
    def texts(self) -> tuple[str, ...]:
        return (self.text,) if isinstance(self.text, str) else self.text

    def check_fields(self) -> None:
        if not self.texts or not all((*self.texts, *self.against)):
            raise ValueError("text is empty; allowed: a text, or a list of texts, none of them empty (so with against)")


class NextToken(Probe):
    """Probability of texts after a prefix, such as Prob("{" | "... as JSON").

    Measures, means over the cases: prob (of the text's own tokens, by the chain rule), mass (that the next bytes are
    the text's, however they are cut into tokens: comparable across tokenizers), rank of the first token (1 = the
    likeliest), top<n> (share of cases whose first token is among the `top` likeliest), nats (-log mass; the mean that
    one likely case does not decide); merged, where a text shares a token with its prefix: the share of such cases.
    Of several texts the probabilities add up, and the best rank counts. With `against`: share (of the probability of
    both), acc (share > 1/2), log_odds."""

    kind: ClassVar[str] = "next_token"
    declared: ClassVar[Mapping[str, Metric]] = {
        "prob": probability(), "mass": probability(), "rank": Metric("lower", minor=True), "top*": share(minor=True),
        "nats": NATS, "merged": share("neither"), "share": share(), "acc": share(),
        "log_odds": Metric("higher", "nats")}  # fmt: skip
    cases: Annotated[tuple[Case, ...], FILLED]
    top: int = Field(5, ge=1)
    """rank up to which a case counts as one of the likeliest"""
    chat: bool = False
    """the prefix is a user's turn, where the checkpoint is evaluated in its chat template"""
    space: Literal["as_written", "either"] = "as_written"
    """either: a text counts with and without a space before it"""

    def measure(self, model: LanguageModel, scope: Scope) -> Measurement:
        result = Measurement()
        texts = [self._pairs(model, case, self.chat and scope.chat) for case in self.cases]
        for number, (right, wrong) in grouped_continuations(model, texts, result.left_out):
            case = self.cases[number]
            question = digest(case.prefix, case.texts, case.against, self.space, self.chat)
            result.rows.append({"id": str(number), "prompt": case.prefix, "asked": question, **_row(right, wrong)})
        if result.rows:
            result.add_means(("prob", "mass", "rank", "nats", "share", "acc", "log_odds"))
            result.measures[f"top{self.top}"] = mean([float(row["rank"] <= self.top) for row in result.rows])
            if any(row["merged"] for row in result.rows):
                result.add_means(["merged"])
        return result

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


def _row(right: list[Continuation], wrong: list[Continuation]) -> dict[str, object]:
    mass = log_sum(each.logmass for each in right)
    row: dict[str, object] = {
        "prob": math.exp(log_sum(each.logprob for each in right)), "mass": math.exp(mass), "nats": -mass,
        "rank": min(each.rank for each in right), "merged": any(each.merged for each in right),
        "scores": [round(each.logprob, 5) for each in (*right, *wrong)]}
    if wrong:
        log_odds = mass - log_sum(each.logmass for each in wrong)
        row |= {"log_odds": log_odds, "share": 1 / (1 + math.exp(min(-log_odds, 700.0))), "acc": log_odds > 0}
    return row
