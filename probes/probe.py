"""The base of the kinds of probes: its input, its result, the declarations of its measures, and the form of prompts."""

from abc import abstractmethod
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

from pydantic import AfterValidator, Field

from argosy.core.config.schema import Config
from argosy.core.statistics.intervals import Estimate, mean
from argosy.core.statistics.metric import BITS, Metric, find, probability
from argosy.model.infer.model import LanguageModel

NATS = Metric("lower", matters=BITS, minor=True)
AUC = probability(chance=0.5)
PLAIN = "{prompt}\n"


def _filled(values: tuple[Any, ...]) -> tuple[Any, ...]:
    if not values:
        raise ValueError("it is empty; allowed: a list of one or more")
    return values


FILLED = AfterValidator(_filled)  # min_length would call a list empty whose entries are wrong


@dataclass(frozen=True)
class Scope:
    """The evaluation that a probe is part of."""

    data: Path | None
    """the data step's directory; None when not given"""
    chat: bool
    """whether prompts go through the chat template"""
    seed: int
    """seed of all draws"""
    limit: int | None
    """the most facts, texts or prompts of a probe"""


@dataclass
class Measurement:
    """The result of a probe."""

    measures: dict[str, Estimate] = field(default_factory=dict)
    rows: list[dict[str, Any]] = field(default_factory=list)
    """a row a case: `id` and `scores` at least"""
    left_out: Counter[str] = field(default_factory=Counter)
    """cases without a result, by reason"""

    def add_means(self, names: Iterable[str], rows: Sequence[Mapping[str, Any]] | None = None, group: str = "") -> None:
        """Add the means of measures over the rows that have them, `cluster` being the unit of errors where rows have
        one.

        `rows`: other than all. `group`: whose rows they are."""
        for name in names:
            own = [row for row in (self.rows if rows is None else rows) if name in row]
            if own:
                clusters = [row["cluster"] for row in own] if "cluster" in own[0] else None
                values = [float(row[name]) for row in own]
                self.measures[f"{group}/{name}" if group else name] = mean(values, clusters)


class Probe(Config):
    """The base of the kinds."""

    kind: ClassVar[str]
    declared: ClassVar[Mapping[str, Metric]]
    """declarations of the measures by name or pattern; those of `<group>/<measure>` are the measure's"""
    name: str
    """name of the probe in its suite: its metrics are probe/<suite>/<name>/<measure>"""
    source: str = ""
    """origin of its files, which the error names when they are absent"""
    optional: bool = False
    """absent files leave the probe out by name, and the suite goes on"""

    @abstractmethod
    def measure(self, model: LanguageModel, scope: Scope) -> Measurement:
        """Measure one model. Raises InputError: the probe needs data that is absent."""

    def declaration(self, measure: str) -> Metric:
        """Look up the declaration of a measure. Raises RuntimeError: the kind does not declare it."""
        metric = find(measure.rpartition("/")[2], self.declared)
        if metric is None:
            raise RuntimeError(f"probes/kinds: {type(self).__name__} does not declare its measure {measure!r}")
        return metric


@dataclass(frozen=True)
class Turn:
    """The form of a prompt: a user's turn where `chat`, else `plain` with the prompt in it."""

    model: LanguageModel
    chat: bool
    plain: str = PLAIN

    def prompt(self, text: str) -> str:
        """Render a prompt up to where the answer begins."""
        return self.model.chat(text) if self.chat else self.plain.replace("{prompt}", text)

    def answer(self, text: str) -> str:
        """Render an answer that begins with `text`."""
        return self._start + text

    @cached_property
    def _start(self) -> str:
        """The text that the template puts before an answer's own."""
        return self.model.answer("") if self.chat else ""

    def answered(self, text: str, answer: str) -> str:
        """Render a prompt with an answer that may go on."""
        if not self.chat:
            return self.prompt(text) + answer
        messages = [{"role": "user", "content": text}, {"role": "assistant", "content": answer}]
        return self.model.render(messages, add_generation_prompt=False)


class PromptProbe(Probe):
    """The base of kinds that put prompts to a model."""

    plain: str = Field(PLAIN, pattern=r"\{prompt\}")
    """form of a prompt without chat template"""

    def turn(self, model: LanguageModel, scope: Scope) -> Turn:
        """Choose the form of prompts."""
        return Turn(model, scope.chat, self.plain)
