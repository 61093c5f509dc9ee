"""What evaluations say of a checkpoint, and how it compares with another one: as `argosy compare` does."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path

from argosy.comparison.contrast import Contrast, Side, alike, contrast
from argosy.comparison.rows import Rows, read_rows
from argosy.comparison.values import Value, total
from argosy.contamination.verdict import Seen, doubt
from argosy.errors import InputError
from argosy.report.checkpoints import Checkpoint
from argosy.statistics import mean
from argosy.step_files import read_done

HEADLINE = "headline"
NOT_A_NUMBER = "not a number"  # of a reason why an evaluation left something out


@dataclass
class Subject:
    """A checkpoint with its evaluations.

    Attributes:
        label: for people; `key` is `<digest>/<export>`.
        headline: by benchmark, the forms that ask for knowledge.
        evaluations: directories that all of this is read from.
        failed: benchmarks, forms, channels and probes that could not be asked, and why.
        lost: by the same, how many items have no score that is a number.
        seen: by benchmark, whether it has been seen.
        notes: what could not be read, in sentences.
    """

    label: str
    key: str = ""
    metrics: Mapping[str, float] = field(default_factory=dict)
    stderr: Mapping[str, float] = field(default_factory=dict)
    counts: Mapping[str, int] = field(default_factory=dict)
    headline: Mapping[str, Sequence[str]] = field(default_factory=dict)
    rows: Rows = field(default_factory=Rows)
    evaluations: Sequence[str] = ()
    failed: Mapping[str, str] = field(default_factory=dict)
    lost: Mapping[str, int] = field(default_factory=dict)
    seen: Mapping[str, Seen] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    def unscored(self, name: str) -> int:
        """How many items of a metric have no score that is a number."""
        return sum(n for where, n in self.lost.items() if covers(name, where))

    def names(self) -> list[str]:
        """Metrics, with a headline for each benchmark."""
        return sorted({*self.metrics, *(f"bench/{task}/{HEADLINE}/acc" for task in self.headline)})

    def side(self, name: str, other: Subject | None = None) -> Side | None:
        """A metric with what it is made of; None where it is not known. A headline is over the forms of both."""
        task = headline_of(name)
        if task is None:
            if name not in self.metrics:
                return None
            return Side(self.metrics[name], self.stderr.get(name, math.nan), self.rows.values(name))
        forms = [form for form in self.headline.get(task, ()) if other is None or form in other.headline.get(task, ())]
        values = self.rows.headline(task, forms) if forms else {}
        return _of_values(values) if values else None


def headline_of(name: str) -> str | None:
    """The benchmark whose headline a metric is."""
    parts = name.split("/")
    return parts[1] if len(parts) == 4 and (parts[0], parts[2], parts[3]) == ("bench", HEADLINE, "acc") else None


def _of_values(values: Mapping[str, Value]) -> Side:
    estimate = mean([v.value for v in values.values()], [v.unit for v in values.values()])
    return Side(total(values), estimate.stderr, values)


def compared(name: str, new: Subject, reference: Subject) -> Contrast | str:
    """A metric from the reference to the new checkpoint; why not, where one of them has none or it is not testable."""
    first, second = reference.side(name, new), new.side(name, reference)
    for side, subject in ((second, new), (first, reference)):
        if side is None:
            return f"is not measured for {subject.label}"
    assert first is not None
    assert second is not None
    sides = alike(name, first, second, reference.rows, new.rows)
    found = contrast(name, (reference.label, new.label), *sides)
    return found if found.tested.p_value is not None else f"cannot be compared: {found.how}"


def memory(name: str, *subjects: Subject) -> str:
    """`; base has likely seen it`: of whom a metric may be memory; "" of nobody."""
    return doubt(name, {subject.label: subject.seen for subject in subjects})


def covers(pattern: str, where: str) -> bool:
    """Whether a metric, or a pattern, is of a benchmark, form, channel or probe (`bench/facts`, `heldout/code`)."""
    parts, given = pattern.split("/"), where.split("/")
    if parts[0] == "heldout" and len(parts) > 2:  # heldout/<measure>/<channel>
        parts = [parts[0], *parts[2:]]
    return len(given) <= len(parts) and all(map(fnmatchcase, given, parts))


def subject_of(checkpoint: Checkpoint) -> Subject:
    """A checkpoint of a report."""
    notes: list[str] = []
    failed, lost = _missing(checkpoint.evaluations)
    notes += [f"{checkpoint.label}: {where} failed: {why}" for where, why in failed.items()]
    notes += [f"{checkpoint.label}: {where} has {n} without a score that is a number" for where, n in lost.items()]
    rows = read_rows(checkpoint.evaluations, notes)
    headline = checkpoint.headline or {task: checkpoint.variants(task) for task in checkpoint.tasks}
    return Subject(checkpoint.label, checkpoint.key, checkpoint.metrics, checkpoint.stderr, checkpoint.counts, headline,
                   rows, tuple(map(str, checkpoint.evaluations)), failed, lost, checkpoint.seen, notes)


def _missing(evaluations: Sequence[Path]) -> tuple[dict[str, str], dict[str, int]]:
    """What failed, and how many scores are not numbers, by where; a later evaluation that measured it counts."""
    failed: dict[str, str] = {}
    lost: dict[str, int] = {}
    for outputs in ((read_done(directory) or {}).get("outputs", {}) for directory in evaluations):
        def unknown(where: str, names: Sequence[str] = tuple(outputs.get("metrics", ()))) -> bool:
            return not any(covers(name, where) for name in names)

        failed = {where: why for where, why in failed.items() if unknown(where)} | outputs.get("failed", {})
        lost = {where: n for where, n in lost.items() if unknown(where)}
        for where, reasons in outputs.get("left_out", {}).items():
            if n := sum(count for reason, count in reasons.items() if NOT_A_NUMBER in reason):
                lost[where] = n
    return failed, lost


def read_subject(evaluations: Sequence[Path], label: str = "") -> Subject:
    """The checkpoint that these evaluations are of.

    Raises:
        InputError: they are of several checkpoints, or none is done.
    """
    from argosy.report.load import read_checkpoints

    found = read_checkpoints((), list(evaluations))
    if len(found.every) != 1:
        raise InputError(f"{len(evaluations)} evaluations are of {len(found.every)} checkpoints, allowed: of one "
                         + "; ".join(found.notes))
    [checkpoint] = found.every
    short = checkpoint.digest.removeprefix("directory:")[:6]
    checkpoint.label = label or f"{checkpoint.stage}/{checkpoint.name} ({short})"
    subject = subject_of(checkpoint)
    subject.notes += found.notes
    return subject
