"""Whether a model ends its answer where the answer is complete, and not before."""

import math
from collections.abc import Mapping
from typing import Annotated, ClassVar

from pydantic import Field

from argosy.core.config.schema import Config
from argosy.core.statistics.intervals import auc
from argosy.core.statistics.metric import Metric, probability, share
from argosy.evidence.results.items import digest
from argosy.model.infer.model import LanguageModel
from argosy.model.infer.rows import NO_NUMBER
from argosy.model.weights.chat import end_tokens
from probes.kinds import AUC, FILLED, NATS, Measurement, PromptProbe, Scope


class Answered(Config):
    """A question with a complete answer, and one that is cut short."""

    question: str = Field(min_length=1)
    answer: str = Field(min_length=2)
    cut: str = ""
    """empty: the first half of the answer"""

    @property
    def unfinished(self) -> str:
        """The answer cut short, at a space where it has one."""
        if self.cut:
            return self.cut
        half = self.answer[: len(self.answer) // 2]
        return half.rpartition(" ")[0] or half


class EndOfTurn(PromptProbe):
    """Prob(end of turn | question, answer): of what the chat template puts behind an answer, and of EOS.

    Measures: prob (after the complete answer), early (after the one cut short), acc (prob > early of the same
    question), auc (over all questions), nats (-log prob). Without chat template the end is EOS."""

    kind: ClassVar[str] = "end_of_turn"
    declared: ClassVar[Mapping[str, Metric]] = {
        "prob": probability(), "early": probability("lower"), "acc": share(), "nats": NATS, "auc": AUC}  # fmt: skip
    cases: Annotated[tuple[Answered, ...], FILLED]

    def measure(self, model: LanguageModel, scope: Scope) -> Measurement:
        """Compute one distribution behind each answer."""
        result = Measurement()
        turn = self.turn(model, scope)
        ends = end_tokens(model.tokenizer, chat=scope.chat)
        if not ends:
            result.left_out["the tokenizer has no token that ends a text"] += len(self.cases)
            return result
        texts = [turn.answered(c.question, answer) for c in self.cases for answer in (c.answer, c.unfinished)]
        contexts = model.encode(texts)
        logs = {index: float(values[ends].double().logsumexp(0))
                for index, values in model.scorer.next_token([tokens or (model.prefix_token,) for tokens in contexts])}
        for number, case in enumerate(self.cases):
            whole, cut = logs[2 * number], logs[2 * number + 1]
            if not (math.isfinite(whole) and math.isfinite(cut)):
                result.left_out[NO_NUMBER] += 1
                continue
            result.rows.append({"id": str(number), "prompt": case.question, "prob": math.exp(whole),
                               "early": math.exp(cut), "acc": whole > cut, "nats": -whole,
                               "asked": digest(case.question, case.answer, case.unfinished, self.plain),
                               "texts": [case.answer, case.unfinished], "scores": [round(whole, 5), round(cut, 5)]})
        if result.rows:
            result.add_means(("prob", "early", "acc", "nats"))
            result.measures["auc"] = auc([r["scores"][0] for r in result.rows], [r["scores"][1] for r in result.rows])
        return result
