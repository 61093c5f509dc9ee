"""Calibration: whether a model is right as often as it is sure."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import ClassVar

from pydantic import Field

from argosy.core.config.schema import Config
from argosy.core.statistics.intervals import Estimate
from argosy.core.statistics.metric import Metric, probability, share
from argosy.evidence.results.items import digest
from argosy.model.infer.model import LanguageModel
from probes.kinds import Measurement, PromptProbe, Scope
from probes.measures import exclusive, grouped_continuations, log_sum
from probes.sources import FactSource, read_facts


class Question(Config):
    """A prompt, its right answer and wrong ones; a space before an answer is written in it."""

    prompt: str = Field(min_length=1)
    answer: str = Field(min_length=1)
    wrong: tuple[str, ...] = Field(min_length=1)

    def check_fields(self) -> None:
        each = (self.answer, *self.wrong)
        if not exclusive(each):
            raise ValueError(f"the answers to {self.prompt!r} are {list(each)}; allowed: texts of which none is empty, "
                             "nor begins another, whose probability would count for both")


class Calibration(PromptProbe):
    """Confidence against correctness, over answers that exclude one another.

    The confidence is the largest share of an answer in the mass of all of a question's answers. Measures: ece (expected
    calibration error over `bins` of equal width: Naeini et al. 2015, Guo et al. 2017; few questions raise it), brier
    (squared error of all shares: Brier 1950), acc, confidence, excess (confidence less acc: 0 is fair), chance; for
    each bin `<from>_<to>/acc` and `/confidence` (per cent), which the report draws as a reliability diagram.

    One source: `questions` or `facts`."""

    kind: ClassVar[str] = "calibration"
    declared: ClassVar[Mapping[str, Metric]] = {
        "ece": probability("lower"), "brier": Metric("lower", minor=True), "acc": share(chance="chance"),
        "confidence": probability("neither"), "excess": Metric("zero"), "chance": share("neither")}  # fmt: skip
    questions: tuple[Question, ...] = ()
    facts: FactSource | None = None
    """the data step's facts, asked as cloze"""
    bins: int = Field(10, ge=2, le=50)
    chat: bool = False
    """the prompt is a user's turn, where the checkpoint is evaluated in its chat template"""
    plain: str = Field("{prompt}", pattern=r"\{prompt\}", title="a text with {prompt}", examples=["Q: {prompt}"])

    def check_fields(self) -> None:
        if bool(self.questions) == (self.facts is not None):
            raise ValueError("give one of questions, facts")

    def declaration(self, measure: str) -> Metric:
        """Look up the declaration of a measure; those of a bin are for the diagram."""
        return replace(super().declaration(measure), minor=True) if "/" in measure else super().declaration(measure)

    def measure(self, model: LanguageModel, scope: Scope) -> Measurement:
        """Score all answers of every question."""
        result = Measurement()
        turn = self.turn(model, Scope(scope.data, scope.chat and self.chat, scope.seed, scope.limit))
        asked = self._asked(scope, result)
        pairs = [[[(turn.prompt(each.prompt), turn.answer(text))] for text in (each.answer, *each.wrong)]
                 for _, each in asked]  # fmt: skip
        for number, groups in grouped_continuations(model, pairs, result.left_out):
            logs = [group[0].logmass for group in groups]
            if not math.isfinite(log_sum(logs)):
                result.left_out["no answer has any probability"] += 1
                continue
            name, each = asked[number]
            row = {"id": f"{name}#{number}", "cluster": name, "prompt": each.prompt, **_row(logs)}
            result.rows.append(row | {"asked": digest(each.prompt, each.answer, each.wrong, self.plain, self.chat)})
        if result.rows:
            result.add_means(("brier", "acc", "confidence", "excess", "chance"))
            result.measures["ece"] = _error(result.rows, self.bins)
            for index, rows in enumerate(_binned(result.rows, self.bins)):
                ends = [f"{100 * edge / self.bins:03.0f}" for edge in (index, index + 1)]
                result.add_means(("acc", "confidence"), rows, "_".join(ends))
        return result

    def _asked(self, scope: Scope, result: Measurement) -> list[tuple[str, Question]]:
        if self.facts is None:
            return [(str(number), each) for number, each in enumerate(self.questions[: scope.limit])]
        found, result.left_out = read_facts(self.facts, scope.data, scope.seed, scope.limit)
        usable = [fact for fact in found if exclusive(fact.candidates)]
        if less := len(found) - len(usable):
            result.left_out["an answer begins another"] += less
        return [(fact.id, Question(prompt=prefix, answer=fact.gap + fact.candidates[0],
                                   wrong=tuple(fact.gap + text for text in fact.candidates[1:])))
                for fact in usable for prefix in fact.prefixes]


def _row(logs: Sequence[float]) -> dict[str, object]:
    """Compute a question's values; `logs`: log mass of the right answer, then of the wrong ones. A tie is wrong."""
    whole = log_sum(logs)
    shares = [math.exp(value - whole) for value in logs]
    right, confidence = shares[0] > max(shares[1:]), max(shares)
    brier = math.fsum((each - (number == 0)) ** 2 for number, each in enumerate(shares))
    return {"acc": right, "confidence": confidence, "excess": confidence - right, "brier": brier,
            "chance": 1 / len(logs), "scores": [round(each, 6) for each in logs]}


def _binned(rows: Sequence[Mapping[str, object]], bins: int) -> list[list[Mapping[str, object]]]:
    """Sort rows into bins (low, high] of equal width by confidence."""
    found: list[list[Mapping[str, object]]] = [[] for _ in range(bins)]
    for row in rows:
        found[min(bins, max(1, math.ceil(float(row["confidence"]) * bins))) - 1].append(row)  # type: ignore[arg-type]
    return found


def _ece(rows: Sequence[Mapping[str, object]], bins: int) -> float:
    gaps = (abs(math.fsum(float(row["excess"]) for row in own)) for own in _binned(rows, bins))  # type: ignore[arg-type]
    return math.fsum(gaps) / len(rows)


def _error(rows: Sequence[Mapping[str, object]], bins: int) -> Estimate:
    """Estimate the calibration error, with the delete-one jackknife's standard error over clusters (Tukey 1958)."""
    clusters = sorted({str(row["cluster"]) for row in rows})
    value, n = _ece(rows, bins), len(clusters)
    if n < 2:
        return Estimate(value, math.nan, len(rows))
    without = [_ece([row for row in rows if row["cluster"] != cluster], bins) for cluster in clusters]
    average = math.fsum(without) / n
    return Estimate(value, math.sqrt((n - 1) / n * math.fsum((each - average) ** 2 for each in without)), len(rows))
