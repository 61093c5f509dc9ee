"""The comparison in plain sentences; every number in them is computed from the items."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from argosy.contamination.verdict import LIKELY
from argosy.report.comparison import Comparison, TaskComparison
from argosy.report.paired import HEADLINE, Change
from argosy.report.seen import evidence, unseen
from argosy.report.words import listed, percent, points, reverse


@dataclass(frozen=True)
class Sentence:
    """about: a task, or "". kind: `best`; `seen` (likely) or `clean` (of the test); `better`, `worse` or `level` (a
    stage); `forgotten` or `learnt` (held-out text); `note`.
    """

    kind: str
    text: str
    about: str = ""


def sentences(found: Comparison) -> list[Sentence]:
    """The most important first."""
    labels = {c.key: c.label for c in found.checkpoints.every}
    said: list[Sentence] = []
    for task in found.tasks:
        said += [*_best(task, labels), *_seen(task, labels), *_stages(task, labels)]
    clean = unseen({t.task: {labels[s.checkpoint]: s.seen for s in t.suspicions} for t in found.tasks})
    said += [Sentence(kind, text) for kind, text in clean]
    return [*said, *_texts(found, labels)] or [
        Sentence("note", "No benchmark, probe or held-out text was evaluated, so there is nothing to compare yet.")]


def _best(task: TaskComparison, labels: dict[str, str]) -> Iterator[Sentence]:
    if task.best is None or not task.standings:
        return
    best = next(s for s in task.standings if s.checkpoint == task.best)
    value = f"{percent(best.headline)} right {_forms(task)} ({best.items} items)"
    text = f"Best on {task.task}: {labels[task.best]}, {value}."
    behind = [c for c in task.others if c.verdict == "worse"]
    level = [c for c in task.others if c.verdict != "worse"]
    if behind:
        nearest = min(behind, key=lambda c: -c.interval.value)
        lead = points(reverse(nearest.interval), sign=False)
        how = f"by {lead}" if len(behind) == 1 else f"(of the nearest, {labels[nearest.second]}, by {lead})"
        text += f" It is ahead of {listed([labels[c.second] for c in behind])} {how}."
    if level:
        text += f" These items cannot tell it from {listed([labels[c.second] for c in level])}."
    if task.others:
        text += " It was selected and tested by that mean, Holm-corrected over all pairs of candidates."
    yield Sentence("best", text, task.task)


def _forms(task: TaskComparison) -> str:
    names = listed([form.replace("_", " ") for form in task.headline])
    return f"in the mean of {len(task.headline)} forms ({names})" if len(task.headline) > 1 else f"in the form {names}"


def _seen(task: TaskComparison, labels: dict[str, str]) -> Iterator[Sentence]:
    first = max((s for s in task.standings if s.plain is not None), key=lambda s: s.plain or 0.0, default=None)
    for suspicion in task.suspicions:
        if suspicion.level == LIKELY:
            rank = ""
            if first is not None and first.checkpoint == suspicion.checkpoint:
                rank = f"Plain accuracy ranks {labels[first.checkpoint]} first ({percent(first.plain or 0.0)}), but "
            yield Sentence("seen", rank + evidence(suspicion, labels), task.task)


def _stages(task: TaskComparison, labels: dict[str, str]) -> Iterator[Sentence]:
    for whole in (c for c in task.stages if c.variant == HEADLINE):
        each = [c for c in task.stages if (c.first, c.second) == (whole.first, whole.second) and c is not whole]
        kind = "level" if whole.verdict == "no difference" else whole.verdict
        yield Sentence(kind, _stage(whole, each, labels, whole.second in task.seen), task.task)


def _stage(whole: Change, each: Sequence[Change], labels: dict[str, str], seen: bool) -> str:
    first, second = labels[whole.first], labels[whole.second]
    went = f"{percent(whole.before)} to {percent(whole.after)} in the headline, {points(whole.interval)}"
    if whole.verdict == "no difference":
        text = f"{second} against {first}: no difference that these {whole.items} items can show ({went})."
    else:
        text = f"{second} is {whole.verdict} than {first}: {went}."
    for verdict in ("better", "worse"):
        names = [c.variant for c in each if c.verdict == verdict]
        where = f"all {len(each)} forms" if len(names) == len(each) else listed(names)
        text += f" {verdict.capitalize()} in {where}." if names and len(each) > 1 else ""
    return text + (" It has seen the test, so read this with care." if seen else "")


def _texts(found: Comparison, labels: dict[str, str]) -> Iterator[Sentence]:
    for verdict, word in (("forgotten", "forgot"), ("learnt", "got better at")):
        for second in dict.fromkeys(t.second for t in found.texts):
            here = [t for t in found.texts if t.second == second and t.verdict == verdict]
            if here:
                parts = [f"{t.channel} {t.before:.3f} to {t.after:.3f} ({t.interval.value:+.3f} "
                         f"[{t.interval.low:.3f}, {t.interval.high:.3f}], {t.documents} documents)" for t in here]
                yield Sentence(verdict, f"{labels[second]} {word} held-out text, in bits a byte against "
                               f"{labels[here[0].first]}: {', '.join(parts)}.")
    if found.texts and all(t.verdict != "forgotten" for t in found.texts):
        fewest, most = min(t.documents for t in found.texts), max(t.documents for t in found.texts)
        documents = f"{fewest}" if fewest == most else f"{fewest} to {most}"
        widest = max(t.interval.high for t in found.texts)
        yield Sentence("note", f"Held-out text: no loss that these documents can show ({documents} a channel), of any "
                       f"stage against the one before. Losses of up to {widest:.3f} bits a byte are within the "
                       "intervals.")
