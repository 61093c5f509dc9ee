"""New checkpoints against a reference: which are worse beyond noise. The numbers behind the nightly report."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from argosy.contamination.verdict import doubt
from argosy.gate.render import sentences
from argosy.gate.rule import CANNOT_TELL, FAILS
from argosy.report.checkpoints import Checkpoint
from argosy.report.forgetting import PREFIX, TextChange, text_changes
from argosy.report.load import BENCHMARK
from argosy.report.paired import DRAWS, HEADLINE, Change, adjust, changes, headline_p_value
from argosy.report.words import percent, points
from argosy.step_files import read_done

if TYPE_CHECKING:
    from argosy.gate.check import Verdict


@dataclass(frozen=True)
class Judged:
    """A new checkpoint and what it is held against.

    Attributes:
        headlines: by benchmark, from the reference to it, Holm-corrected over all of the night.
        forms: of single forms of the questions, Holm-corrected over the forms of one benchmark.
        texts: of held-out text, Holm-corrected over all of the night.
        missing: benchmarks and channels that a suite found of the reference and not of it, with which both were
            evaluated.
        gate: what the model line's gate says; where there is one, it decides what is worse.
    """

    new: Checkpoint
    reference: Checkpoint | None
    headlines: list[Change] = field(default_factory=list)
    forms: list[Change] = field(default_factory=list)
    texts: list[TextChange] = field(default_factory=list)
    gate: Verdict | None = None
    missing: list[str] = field(default_factory=list)

    @property
    def regressions(self) -> list[str]:
        """What it is worse at, in words: rules of the gate that it fails. Without a gate, held-out text counts between
        checkpoints of one stage: tuning costs some."""
        if self.gate is not None:
            return sentences(self.gate, FAILS)
        found = [f"{c.task}: {percent(c.before)} to {percent(c.after)}, {points(c.interval)}{self._doubt(c.task)}"
                 for c in self.headlines if c.verdict == "worse"]
        if self.reference is None or self.reference.stage != self.new.stage:
            return found
        return found + [f"held-out {t.channel}: {t.before:.3f} to {t.after:.3f} bits a byte "
                        f"({t.interval.value:+.3f} [{t.interval.low:.3f}, {t.interval.high:.3f}])"
                        for t in self.texts if t.verdict == "forgotten"]

    def _doubt(self, task: str) -> str:
        both = [each for each in (self.reference, self.new) if each is not None]
        return doubt(f"{BENCHMARK}{task}", {each.label: each.seen for each in both})

    @property
    def verdict(self) -> str:
        """`worse`, `better`, `no difference` that these items can show, `not compared`, or `cannot tell` (the gate
        cannot, or what was asked is `missing`)."""
        if self.regressions:
            return "worse"
        if (self.gate is not None and not self.gate.holds) or (self.gate is None and self.missing):
            return CANNOT_TELL
        if not self.headlines and not self.texts:
            return "not compared"
        better = any(c.verdict == "better" for c in self.headlines)
        return "better" if better else "no difference"


def judge(pairs: Sequence[tuple[Checkpoint, Checkpoint | None]]) -> list[Judged]:
    """Compare each new checkpoint with its reference, on the items that both answered."""
    both = [(new, reference) for new, reference in pairs if reference is not None]
    found = [change for new, reference in both for task in sorted({*new.tasks} & {*reference.tasks})
             for change in changes(reference, new, task)]
    headlines = _headlines([change for change in found if change.variant == HEADLINE], both)
    texts = text_changes([(reference, new) for new, reference in both])

    def own(some: Sequence[Change], new: Checkpoint) -> list[Change]:
        return [change for change in some if change.second == new.key]

    forms = [change for change in found if change.variant != HEADLINE]
    return [Judged(new, reference, own(headlines, new), own(forms, new), [t for t in texts if t.second == new.key],
                   missing=_missing(new, reference) if reference else []) for new, reference in pairs]


def _missing(new: Checkpoint, reference: Checkpoint) -> list[str]:
    """What failed, or has no score that is a number; what only the reference was asked is not missing."""
    ours, theirs = _by_suite(new), _by_suite(reference)
    asked = {name for suite in theirs.keys() & ours.keys() for name in theirs[suite]}
    return sorted(asked - {name for names in ours.values() for name in names})


def _by_suite(checkpoint: Checkpoint) -> dict[str, set[str]]:
    """By suite, `bench/<task>` and `heldout/bpb/<channel>` that evaluations measured."""
    found: dict[str, set[str]] = {}
    for directory in checkpoint.evaluations:
        outputs = (read_done(directory) or {}).get("outputs", {})
        names = found.setdefault(str(outputs.get("suite", "")), set())
        for name in outputs.get("metrics", {}):
            if name.startswith(PREFIX):
                names.add(name)
            elif name.startswith(BENCHMARK):
                names.add("/".join(name.split("/")[:2]))
    return found


def _headlines(found: Sequence[Change], pairs: Sequence[tuple[Checkpoint, Checkpoint]]) -> list[Change]:
    """Holm-corrected over all, with so many draws that the smallest p-value is far below 0.05 / their number."""
    draws = 200 * len(found)
    if draws > DRAWS:
        of = {new.key: (new, reference) for new, reference in pairs}
        found = [replace(c, p_value=_p_value(*of[c.second], c.task, draws)) for c in found]
    return adjust(found)


def _p_value(new: Checkpoint, reference: Checkpoint, task: str, draws: int) -> float:
    forms = [variant for variant in new.headline_of(task) if variant in reference.headline_of(task)]
    return headline_p_value(reference, new, task, forms, draws)
