"""Whether an answer is about to begin in the format that a prompt asks for."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, ClassVar, Self

from pydantic import Field, model_validator

from argosy.config import Config
from argosy.evaluation.asked import digest
from argosy.evaluation.language_model import LanguageModel
from argosy.statistics.intervals import mean
from probes.continuation import continuations
from probes.measures import distinct, log_sum
from probes.openings import FORMATS
from probes.probe import FILLED, Measured, Probe, Scope
from probes.prompts import PLAIN, Turn


class FormatCase(Config):
    """A prompt and the format that it asks for."""

    prompt: str = Field(min_length=1)
    format: str


class Opener(Probe):
    """Prob(a format's openers | a prompt that asks for it), against the openers of the other formats.

    Measures: mass (that the answer begins with one of the right format's openers), nats (-log of it), share (of the
    mass of all formats' openers), acc (the right format has the largest mass), lift (nats by which a format's openers
    are likelier after prompts that ask for it than after those that ask for another); `<format>/mass`, `<format>/lift`.

    `formats`: openers by name (json, list, code and answer are there; these are added to them). `plain`: how a prompt
    is put without chat template.
    """

    kind: ClassVar[str] = "opener"
    cases: Annotated[tuple[FormatCase, ...], FILLED]
    formats: dict[str, tuple[str, ...]] = Field(default_factory=dict)
    plain: str = Field(PLAIN, pattern=r"\{prompt\}")

    @property
    def openers(self) -> dict[str, tuple[str, ...]]:
        """Openers by format."""
        return {**FORMATS, **self.formats}

    @model_validator(mode="after")
    def _known(self) -> Self:
        for name, texts in self.formats.items():
            if not texts or not all(texts):
                raise ValueError(f"formats.{name} is {list(texts)!r}; allowed: a list of texts, none of them empty")
        for case in self.cases:
            if case.format not in self.openers:
                raise ValueError(f"cases has the format {case.format!r}; allowed: {', '.join(self.openers)}, "
                                 "or one that formats gives openers for")
        return self

    def measure(self, model: LanguageModel, scope: Scope) -> Measured:
        """Score the openers of every format that some case asks for after every prompt."""
        found = Measured()
        turn = Turn(model, scope.chat, self.plain)
        wanted = list(dict.fromkeys(case.format for case in self.cases))
        openers = {name: distinct(self.openers[name]) for name in wanted}
        pairs = [(turn.prompt(case.prompt), turn.answer(text))
                 for case in self.cases for name in wanted for text in openers[name]]
        scores = iter(continuations(model, pairs))
        for number, case in enumerate(self.cases):
            own = {name: [next(scores) for _ in openers[name]] for name in wanted}
            problem = next((each.problem for group in own.values() for each in group if each.problem), "")
            if problem:
                found.left_out[problem] += 1
            else:
                logs = {name: log_sum(each.logmass for each in group) for name, group in own.items()}
                asked = digest(case.prompt, case.format, openers, self.plain)
                found.rows.append({**_row(number, case, logs), "asked": asked})
        _add_lifts(found.rows)
        for name in ("", *(wanted if len(wanted) > 1 else ())):
            _summarize(found, name)
        return found


def _row(number: int, case: FormatCase, logs: Mapping[str, float]) -> dict[str, Any]:
    right = logs[case.format]
    others = [value for name, value in logs.items() if name != case.format]
    row = {"id": str(number), "group": case.format, "prompt": case.prompt, "mass": math.exp(right), "nats": -right,
           "formats": list(logs), "scores": [round(value, 5) for value in logs.values()]}
    if others:
        row |= {"share": math.exp(right - log_sum(logs.values())), "acc": right > max(others)}
    return row


def _summarize(found: Measured, name: str) -> None:
    rows = [row for row in found.rows if not name or row["group"] == name]
    where = f"{name}/" if name else ""
    for measure in ("mass", "nats", "share", "acc", "lift") if not name else ("mass", "lift"):
        if own := [float(row[measure]) for row in rows if measure in row]:
            found.measures[where + measure] = mean(own)


def _add_lifts(rows: Sequence[dict[str, Any]]) -> None:
    """To each row the log mass of its format, less the mean of the same where another format is asked for."""
    for row in rows:
        place = row["formats"].index(row["group"])
        others = [other["scores"][place] for other in rows if other["group"] != row["group"]]
        if others:
            row["lift"] = row["scores"][place] - math.fsum(others) / len(others)
