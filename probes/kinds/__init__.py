"""Kinds of probes: their base class, the scan that finds them, and the run of a suite's on one checkpoint.

A kind is a Config with a `kind` and `measure(model, scope) -> Measurement`; its fields are what a suite may set:

    probes:
      - {name: json_zh, kind: next_token, cases: [{prefix: "以json输出：", text: "{"}]}
"""

from abc import abstractmethod
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

from pydantic import AfterValidator, Field, ValidationError

from argosy.core.config.explain import config_error
from argosy.core.config.schema import Config
from argosy.core.errors import InputError
from argosy.core.plugins import Folder
from argosy.core.statistics.intervals import Estimate, mean
from argosy.core.statistics.metric import BITS, Metric, find, probability
from argosy.evidence.results.findings import Findings, reason
from argosy.evidence.results.suite import NoFileError, Suite, check_names
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
        """Add the means of measures over the rows that have them; `cluster`, if a row has one, is the unit of errors.

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
        return self.model.answer("") if self.chat else ""


class PromptProbe(Probe):
    """The base of kinds that put prompts to a model."""

    plain: str = Field(PLAIN, pattern=r"\{prompt\}", title="a text with {prompt}", examples=["Q: {prompt}"])
    """form of a prompt without chat template"""

    def turn(self, model: LanguageModel, scope: Scope) -> Turn:
        """Choose the form of prompts."""
        return Turn(model, scope.chat, self.plain)


KINDS: Folder[type[Probe]] = Folder("kind", Probe, __name__, key="kind")


def run_probes(suite: Suite, model: LanguageModel, data: str, *, chat: bool, seed: int, limit: int | None) -> Findings:
    """Measure the probes of a suite: metrics `probe/<suite>/<name>/<measure>` and a row a case. A probe without its
    data has failed, by name, and the others go on.

    Raises InputError: a probe of an unknown kind or with a wrong field; a name used twice; no probe has its data."""
    probes = parse_probes(suite)
    scope = Scope(Path(data) if data else None, chat, seed, limit)
    findings = Findings()
    first: InputError | None = None
    for probe in probes:
        where = f"probe/{suite.name}/{probe.name}"
        before = model.scorer.cut
        try:
            measurement = probe.measure(model, scope)
            for measure, estimate in measurement.measures.items():
                findings.add(f"{where}/{measure}", estimate, probe.declaration(measure))
            for why, n in measurement.left_out.items():
                findings.leave_out(where, why, n)
            findings.rows += [{"task": suite.name, "variant": probe.name, **row} for row in measurement.rows]
            if cut := model.scorer.cut - before:
                findings.cut[where] = cut
        except InputError as error:
            if isinstance(error, NoFileError) and probe.optional:
                findings.leave_out(where, f"no file: {getattr(probe, 'file', '')}")
                continue
            get = f". Get it from {probe.source}" if isinstance(error, NoFileError) and probe.source else ""
            first = first or InputError(f"suite {suite.name}, probe {probe.name!r}: {error}{get}")
            findings.fail(where, reason(error) + get, error)
    if first and len(findings.failed) == len(probes):
        raise first
    return findings


def parse_probes(suite: Suite) -> list[Probe]:
    """Parse the probes of a suite. Raises InputError: as `parse_probe`, or a name is there twice."""
    probes = [parse_probe(entry, suite.name) for entry in suite.probes or []]
    names = [probe.name for probe in probes]
    check_names([suite.name, *names], f"suite {suite.name}, probes")
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice:
        raise InputError(f"suite {suite.name}: two probes are called {twice!r}")
    return probes


def parse_probe(entry: Mapping[str, Any], suite: str) -> Probe:
    """Parse a probe of a suite's YAML. Raises InputError: its kind is unknown (names the nearest) or a field wrong."""
    fields = dict(entry)
    where = f"suite {suite}, probe {fields.get('name')!r}"
    kind = fields.pop("kind", None)
    if kind is None:
        raise InputError(f"{where}: give its kind (there are: {', '.join(KINDS)})")
    if kind not in KINDS:
        raise InputError(f"{where}: {KINDS.unknown(str(kind))}")
    try:
        return KINDS[kind].model_validate(fields)
    except ValidationError as error:
        raise InputError(f"{where}: {config_error(KINDS[kind], error)}") from None
