"""The subject of a gate: a checkpoint, with the parts of its evaluations that failed or have no score."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path

from argosy.core.errors import InputError
from argosy.core.store.step_files import read_done
from argosy.evidence.compare.changes import change
from argosy.evidence.compare.checkpoints import Checkpoint, headline_of, headline_task, read_checkpoints
from argosy.evidence.compare.metrics import UNDECLARED
from argosy.evidence.compare.test import Contrast
from argosy.evidence.results.contamination import doubt
from argosy.evidence.results.headline import metric_of
from argosy.evidence.results.rows import Rows

NOT_A_NUMBER = "not a number"  # of a reason why an evaluation left something out


@dataclass
class Subject:
    """A checkpoint with its evaluations."""

    checkpoint: Checkpoint
    failed: Mapping[str, str] = field(default_factory=dict)
    """benchmarks, forms, channels and probes that could not be asked, and why"""
    lost: Mapping[str, int] = field(default_factory=dict)
    """number of items whose score is missing or not a number, by the same names"""
    notes: list[str] = field(default_factory=list)

    @property
    def label(self) -> str:
        return self.checkpoint.label

    @property
    def key(self) -> str:
        """`<digest>/<export>`."""
        return self.checkpoint.key

    @property
    def rows(self) -> Rows:
        """Its answers and losses item by item."""
        return self.checkpoint.rows

    def unscored(self, name: str) -> int:
        """The number of items of a metric that have no score that is a number."""
        return sum(n for where, n in self.lost.items() if covers(name, where))

    def source(self, name: str) -> str:
        """`, by the suite core with limit 5 (evaluate-...)`: the evaluation that counts for a metric, or for the forms
        of a headline; "" where none here has it."""
        task = headline_task(name)
        names = {name} if task is None else {metric_of(task, form) for form in self.checkpoint.headline_of(task)}
        for directory in reversed(self.checkpoint.evaluations):
            done = read_done(directory) or {"outputs": {}}
            if names.intersection(done["outputs"].get("metrics", ())):
                limit = done["made_from"]["config"].get("limit")
                suite = f"{done['outputs'].get('suite')}{f' with limit {limit}' if limit else ''}"
                return f", by the suite {suite} ({directory.name})"
        return ""

    def names(self) -> list[str]:
        """Metrics, with a headline for each benchmark."""
        return sorted({*self.checkpoint.metrics, *map(headline_of, self.checkpoint.headline or self.checkpoint.tasks)})


def nobody(label: str, key: str = "", note: str = "") -> Subject:
    """A checkpoint without evaluations, or one that cannot be seen from here."""
    return Subject(Checkpoint(key, "", "", "", 0, 0, label=label), notes=[note] if note else [])


def compared(name: str, new: Subject, reference: Subject) -> Contrast | str:
    """A metric from the reference to the new checkpoint; why not, where one of them has none or it is not testable."""
    found = change(name, reference.checkpoint, new.checkpoint)
    if found is None:
        without = [subject.label for subject in (new, reference) if subject.checkpoint.side(name) is None]
        return f"is not measured for {without[0]}" if without else "has no form that both were asked in"
    if found.how == UNDECLARED:
        return f"cannot be held: {UNDECLARED}, so nothing says which way is better; evaluating again declares it"
    return found if found.tested.p_value is not None else f"cannot be compared: {found.how}"


def memory(name: str, *subjects: Subject) -> str:
    """`; base has likely seen it`: the subjects for whom a metric may be memory; "" for none."""
    return doubt(name, {subject.label: subject.checkpoint.seen for subject in subjects})


def covers(pattern: str, where: str) -> bool:
    """Whether a metric, or a pattern, is of a benchmark, form, channel or probe (`bench/facts`, `heldout/code`)."""
    parts, given = pattern.split("/"), where.split("/")
    if parts[0] == "heldout" and len(parts) > 2:  # heldout/<measure>/<channel>
        parts = [parts[0], *parts[2:]]
    return len(given) <= len(parts) and all(map(fnmatchcase, given, parts))


def subject_of(checkpoint: Checkpoint) -> Subject:
    """A checkpoint of a report, with what its evaluations lack."""
    failed, lost = _missing(checkpoint.evaluations)
    notes = [f"{checkpoint.label}: {where} failed: {why}" for where, why in failed.items()]
    notes += [f"{checkpoint.label}: {where} has {n} without a score that is a number" for where, n in lost.items()]
    checkpoint.seen  # noqa: B018  its rows are read here, so that broken ones are noted
    return Subject(checkpoint, failed, lost, notes + checkpoint.notes)


def _missing(evaluations: Sequence[Path]) -> tuple[dict[str, str], dict[str, int]]:
    """Parts that failed, and scores that are no numbers, by where; a later evaluation that measured it counts."""
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
    """The checkpoint that these evaluations are of. Raises InputError: they are of several, or none is done."""
    found = read_checkpoints((), list(evaluations))
    if len(found.every) != 1:
        raise InputError(f"{len(evaluations)} evaluations are of {len(found.every)} checkpoints, allowed: of one "
                         + "; ".join(found.notes))
    [checkpoint] = found.every
    short = checkpoint.digest.removeprefix("directory:")[:6]
    checkpoint.label = label or f"{checkpoint.stage}/{checkpoint.name} ({short})"
    subject = subject_of(checkpoint)
    subject.notes += [note for note in found.notes if note not in subject.notes]
    return subject
