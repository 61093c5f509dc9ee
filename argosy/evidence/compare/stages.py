"""The comparison of a pipeline's stages: rankings, and each stage against the one before."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import combinations

from argosy.core.statistics.decisions import DECISION, TABLE
from argosy.evidence.compare.changes import Pair, form_changes, headline_changes, not_shared, task_of, text_changes
from argosy.evidence.compare.checkpoints import Checkpoint, Checkpoints, side_of
from argosy.evidence.compare.metrics import HEADLINE
from argosy.evidence.compare.test import Contrast
from argosy.evidence.compare.traces import Suspect, pair_leads, suspicions
from argosy.evidence.compare.words import listed, percent
from argosy.evidence.results.contamination import PLAIN


@dataclass(frozen=True)
class Standing:
    """A checkpoint's headline, which is what ranks it, and its accuracy on the published form."""

    checkpoint: str
    headline: float
    """share of right answers, for each item the mean over the headline's forms, over the items that all checkpoints
    were asked in all of them"""
    plain: float | None
    items: int
    interval: tuple[float, float] | None = None
    """interval of the headline"""


@dataclass
class TaskComparison(Suspect):
    """One benchmark over the stages."""

    forms: list[str] = field(default_factory=list)
    """variants that every ranked checkpoint was asked in"""
    headline: list[str] = field(default_factory=list)
    """variants of `forms` that ask for knowledge; checkpoints are ranked, and ranks tested, by their mean"""
    standings: list[Standing] = field(default_factory=list)
    """last checkpoints of the stages, the highest first, those that have seen the test included"""
    highest: str | None = None
    """the first of those that have not"""
    no_best: str = ""
    """why the highest is not the best: it is not above chance, or not ahead of each other candidate"""
    others: list[Contrast] = field(default_factory=list)
    """the headline, from the highest to each other candidate. Whoever is highest by chance would have been selected, so
    these are corrected over all pairs of candidates, as a decision is"""
    stages: list[Contrast] = field(default_factory=list)
    """from the stage before to each stage; the headline corrected over the stages, single forms over the forms of a
    stage, as tables are"""

    @property
    def best(self) -> str | None:
        """The highest, where it is above chance and ahead of every other candidate."""
        return None if self.no_best else self.highest


@dataclass
class Comparison:
    """Everything, by task and by stage."""

    checkpoints: Checkpoints
    tasks: list[TaskComparison]
    texts: list[Contrast]


def compare(checkpoints: Checkpoints) -> Comparison:
    """Compare what is there; what is missing makes it shorter, and is noted."""
    names = sorted({task for c in checkpoints.finals for task in c.tasks})
    pairs = _stage_pairs(checkpoints)
    checkpoints.notes += [note for note in not_shared(pairs) if note not in checkpoints.notes]
    return Comparison(checkpoints, [_task(checkpoints, name) for name in names], text_changes(pairs, TABLE))


def _stage_pairs(checkpoints: Checkpoints) -> list[Pair]:
    known = {c.key: c for c in checkpoints.evaluated}
    return [(known[c.base], c) for c in checkpoints.finals if c.base in known]


def _task(checkpoints: Checkpoints, task: str) -> TaskComparison:
    asked = [c for c in checkpoints.finals if task in c.tasks]
    forms = [v for v in asked[0].variants(task) if all((task, v) in c.answers for c in asked)]
    headline = [v for v in forms if all(v in c.headline_of(task) for c in asked)] or forms
    found = TaskComparison(task, suspicions(asked, task), pair_leads(asked, task), forms, headline)
    found.standings = sorted(_standings(asked, task, headline), key=lambda s: (-s.headline, s.checkpoint))
    found.highest = next((s.checkpoint for s in found.standings if s.checkpoint not in found.seen), None)
    if found.highest is not None:
        candidates = [c for c in asked if c.key not in found.seen]
        found.others = changes_from_best(found.highest, candidates, task, headline)
    found.no_best = _no_best(checkpoints, found)
    pairs = [(a, b) for a, b in _stage_pairs(checkpoints) if task in a.tasks and task in b.tasks]
    whole = {(c.first, c.second): c for c in headline_changes([(task, a, b) for a, b in pairs], TABLE)}
    for a, b in pairs:
        found.stages += [whole[a.key, b.key]] if (a.key, b.key) in whole else []
        found.stages += form_changes(a, b, task, TABLE)
    return found


def _standings(asked: Sequence[Checkpoint], task: str, headline: Sequence[str]) -> Iterator[Standing]:
    scores = {c.key: c.rows.headline(task, headline) for c in asked}
    items = sorted(set.intersection(*(set(of) for of in scores.values())))
    for c in asked if items else ():
        published = c.answers[task, PLAIN].by_item if (task, PLAIN) in c.answers else None
        plain = sum(published.values()) / len(published) if published else None
        side = side_of({item: scores[c.key][item] for item in items})
        yield Standing(c.key, side.value, plain, len(items), side.interval(share=True))


def _no_best(checkpoints: Checkpoints, found: TaskComparison) -> str:
    """Why nothing is the best; "" where the highest is."""
    if not found.standings:
        what = "item" if found.headline else "form"
        return f"the last checkpoints of the stages were asked no {what} in common; evaluate them with the same suite"
    if found.highest is None:
        return "every checkpoint has likely seen the test"
    known = (checkpoints[found.highest].chance(f"bench/{found.task}/{form}/acc") for form in found.headline)
    chances = [chance for chance in known if chance is not None]
    interval = next(s.interval for s in found.standings if s.checkpoint == found.highest)
    if chances and (interval is None or interval[0] <= sum(chances) / len(chances)):
        return f"nothing is above chance, {percent(sum(chances) / len(chances))}"
    level = [checkpoints[c.second].label for c in found.others if c.verdict != "worse"]
    candidates = [s for s in found.standings if s.checkpoint not in found.seen]
    if level or len(found.others) < len(candidates) - 1:
        return f"the highest is not apart from {listed(level) or 'the others'}, by what these items can show"
    return "" if found.others else "there is no other candidate"


def changes_from_best(
    key: str, candidates: Sequence[Checkpoint], task: str, headline: Sequence[str]
) -> list[Contrast]:
    """The headline's change from the best to each other candidate, corrected over all pairs of candidates."""
    (best,) = [c for c in candidates if c.key == key]
    others = [c for c in candidates if c is not best]
    pairs = [(best, other) for other in others] + list(combinations(others, 2))
    return [c for c in headline_changes([(task, a, b) for a, b in pairs], DECISION, headline) if c.first == key]


def is_headline(change: Contrast) -> bool:
    """Whether a change is of a benchmark's headline, not of a single form."""
    return task_of(change)[1] == HEADLINE
