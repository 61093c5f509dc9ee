"""Openers of answers in the format that a prompt asks for."""

import math
from collections.abc import Mapping
from typing import Annotated, Any, ClassVar

from pydantic import Field

from argosy.core.config.schema import Config
from argosy.core.statistics.metric import Metric, probability, share
from argosy.evidence.results.items import digest
from argosy.model.infer.model import LanguageModel
from probes.kinds import FILLED, NATS, Measurement, PromptProbe, Scope
from probes.measures import distinct, grouped_continuations, log_sum

FORMATS: dict[str, tuple[str, ...]] = {
    "json": ("{", "[", "```json"),
    "list": ("1.", "1、", "- ", "* ", "•"),
    "code": ("```python", "```\n", "def ", "import "),
    "answer": ("The answer is", "Answer:", "答案是", "答案：", "答案为")}


class FormatCase(Config):
    """A prompt and the format that it asks for."""

    prompt: str = Field(min_length=1)
    format: str


class Opener(PromptProbe):
    """Prob(a format's openers | a prompt that asks for it), against the openers of the other formats.

    Measures: mass (that the answer begins with one of the right format's openers), nats (-log of it), share (of the
    mass of all formats' openers), acc (the right format has the largest mass), lift (nats by which a format's openers
    are likelier after prompts that ask for it than after those that ask for another); `<format>/mass`, `<format>/lift`.
    """

    kind: ClassVar[str] = "opener"
    declared: ClassVar[Mapping[str, Metric]] = {
        "mass": probability(), "nats": NATS, "share": share(), "acc": share(), "lift": Metric("higher", "nats"),
    }  # fmt: skip
    cases: Annotated[tuple[FormatCase, ...], FILLED]
    formats: dict[str, tuple[str, ...]] = Field(default_factory=dict)
    """openers by name, beside those of json, list, code and answer"""

    @property
    def openers(self) -> dict[str, tuple[str, ...]]:
        return {**FORMATS, **self.formats}

    def check_fields(self) -> None:
        for name, texts in self.formats.items():
            if not texts or not all(texts):
                raise ValueError(f"formats.{name} is {list(texts)!r}; allowed: a list of texts, none of them empty")
        for case in self.cases:
            if case.format not in self.openers:
                raise ValueError(f"cases has the format {case.format!r}; allowed: {', '.join(self.openers)}, "
                                 "or one that formats gives openers for")

    def measure(self, model: LanguageModel, scope: Scope) -> Measurement:
        """Score the openers of every format that some case asks for after every prompt."""
        result = Measurement()
        turn = self.turn(model, scope)
        wanted = list(dict.fromkeys(case.format for case in self.cases))
        openers = {name: distinct(self.openers[name]) for name in wanted}
        pairs = [[[(turn.prompt(case.prompt), turn.answer(text)) for text in openers[name]] for name in wanted]
                 for case in self.cases]  # fmt: skip
        for number, groups in grouped_continuations(model, pairs, result.left_out):
            case = self.cases[number]
            logs = {name: log_sum(each.logmass for each in group) for name, group in zip(wanted, groups, strict=True)}
            question = digest(case.prompt, case.format, openers, self.plain)
            result.rows.append({**_row(number, case, logs), "asked": question})
        for row in result.rows:  # the log mass of its format, less its mean where a prompt asks for another format
            place = row["formats"].index(row["group"])
            others = [other["scores"][place] for other in result.rows if other["group"] != row["group"]]
            if others:
                row["lift"] = row["scores"][place] - math.fsum(others) / len(others)
        result.add_means(self.declared)
        for name in wanted if len(wanted) > 1 else ():
            result.add_means(("mass", "lift"), [row for row in result.rows if row["group"] == name], name)
        return result


def _row(number: int, case: FormatCase, logs: Mapping[str, float]) -> dict[str, Any]:
    right = logs[case.format]
    others = [value for name, value in logs.items() if name != case.format]
    row = {"id": str(number), "group": case.format, "prompt": case.prompt, "mass": math.exp(right), "nats": -right,
           "formats": list(logs), "scores": [round(value, 5) for value in logs.values()]}
    if others:
        row |= {"share": math.exp(right - log_sum(logs.values())), "acc": right > max(others)}
    return row
