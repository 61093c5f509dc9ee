"""Changes between two checkpoints: each form of a benchmark and its headline, held-out text, and what is not shared;
and the comparison of a pipeline's stages: rankings, and each stage against the one before."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import combinations

from argosy.core.statistics.decisions import DECISION, TABLE, Method
from argosy.evidence.compare.checkpoints import HELDOUT, Checkpoint, Checkpoints, headline_of, kind_among, side_of
from argosy.evidence.compare.metrics import HEADLINE, Kind
from argosy.evidence.compare.suspicion import Suspect, suspicions
from argosy.evidence.compare.test import NOTHING_IN_COMMON, OTHER_TOKENS, Contrast, alike, contrast, corrected
from argosy.evidence.compare.words import listed, percent
from argosy.evidence.results.contamination import PLAIN
from argosy.evidence.results.headline import best_forms, headline, metric_of
from argosy.evidence.results.items import told
from argosy.evidence.results.rows import ALL, shared_suite
from argosy.evidence.results.values import ASKED_OTHERWISE, shared

Pair = tuple[Checkpoint, Checkpoint]


def change(name: str, first: Checkpoint, second: Checkpoint, forms: Sequence[str] = (),
           kind: Kind | None = None) -> Contrast | None:
    """A metric from one checkpoint to another; None where one of them does not have it.

    `forms`: those that a headline is in (default: the best of those that both were asked in). `kind`: of the metric
    (default: as the two declare it)."""
    before, after = first.side(name, second, forms), second.side(name, first, forms)
    if before is None or after is None:
        return None
    kind = kind or kind_among(name, (first, second))
    return contrast(name, kind, (first.key, second.key), *alike(name, before, after, first.rows, second.rows))


def task_of(found: Contrast) -> tuple[str, str]:
    """The benchmark and the form that a change is of."""
    _, task, form, _ = found.name.split("/")
    return task, form


def headline_changes(asked: Iterable[tuple[str, Checkpoint, Checkpoint]], method: Method,
                     forms: Sequence[str] = ()) -> list[Contrast]:
    """The headline of each (benchmark, first, second) whose items can be paired, corrected over all of them."""
    found = [change(headline_of(task), first, second, forms) for task, first, second in asked]
    return corrected([c for c in found if c is not None and c.how == "paired"], method)


def form_changes(first: Checkpoint, second: Checkpoint, task: str, method: Method) -> list[Contrast]:
    """A change for each form that both were asked in and that can be paired, corrected over the forms."""
    common = [form for form in second.variants(task) if (task, form) in first.answers]
    found = [change(f"bench/{task}/{form}/acc", first, second) for form in common]
    return corrected([c for c in found if c is not None and c.how == "paired"], method)


def text_changes(pairs: Sequence[Pair], method: Method) -> list[Contrast]:
    """Bits a byte of each channel that can be paired document by document, corrected over pairs and channels."""
    found = [change(HELDOUT + channel, *pair) for pair in pairs for channel in channels_of(*pair)]
    return corrected([c for c in found if c is not None and c.how == "paired" and c.tested.n > 1], method)


def channels_of(first: Checkpoint, second: Checkpoint) -> list[str]:
    """Channels of held-out text that both were measured on, by whatever suite."""
    both = {name for name in first.metrics if name.startswith(HELDOUT)} & second.metrics.keys()
    return sorted({name.removeprefix(HELDOUT) for name in both} - {ALL})


def not_shared(pairs: Sequence[Pair]) -> list[str]:
    """Notes on what the checkpoints of a pair were not both asked: suites, documents, questions of the same names."""
    return list(dict.fromkeys(note for pair in pairs for note in (*_texts(*pair), *_questions(*pair))))


def _texts(first: Checkpoint, second: Checkpoint) -> list[str]:
    found: dict[str, list[str]] = {}
    for channel in channels_of(first, second):
        name = HELDOUT + channel
        suites = first.rows.suites(name), second.rows.suites(name)
        if not all(suites):
            continue
        if not shared_suite(name, first.rows, second.rows):
            found.setdefault(f"they were measured with {told(suites[0][-1], suites[1][-1])}", []).append(channel)
        elif (c := change(name, first, second)) is not None and (
            c.how in (OTHER_TOKENS, NOTHING_IN_COMMON) or (c.how == "paired" and c.tested.n < 2)):
            found.setdefault("they share less than two documents of the same bytes", []).append(channel)
    return [f"Held-out text ({', '.join(channels)}): {second.label} is not compared to {first.label}, {why}: evaluate "
            "both with the same suite and data." for why, channels in found.items()]


def _questions(first: Checkpoint, second: Checkpoint) -> list[str]:
    found = []
    for group in sorted(first.answers.keys() & second.answers.keys(), key=lambda g: (g[0], g[1] != "plain", g[1])):
        both = shared(first.answers[group].values, second.answers[group].values)
        if both.others or both.otherwise:
            n, of = both.otherwise, len(both.keys) + both.otherwise
            found.append(" ".join(group) + (f" ({n:,} of {of:,} questions)" if n < of and not both.others else ""))
    if not found:
        return []
    return [f"{', '.join(found).replace('_', ' ')}: {second.label} is not compared to {first.label}, "
            f"{ASKED_OTHERWISE}: evaluate both with the same suite, seed and data."]


@dataclass(frozen=True)
class Standing:
    """A checkpoint's headline, which is what ranks it, and its accuracy on the published form."""

    checkpoint: str
    headline: float
    """share of right answers in the headline's forms, over the items that all checkpoints were asked in them"""
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
    """the best form (argosy.evidence.results.headline) for those that have not seen the test, in which all are
    ranked and tested: one, or one for each half of the items"""
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
    found = TaskComparison(task, suspicions(asked, task), forms)
    unseen = [c for c in asked if c.key not in found.seen] or asked
    candidates = [f for f in asked[0].headline_of(task) if all(f in c.headline_of(task) for c in asked)] or forms
    found.headline = best_forms([c.rows for c in unseen], task, candidates)
    found.standings = sorted(_standings(asked, task, found.headline), key=lambda s: (-s.headline, s.checkpoint))
    found.highest = next((s.checkpoint for s in found.standings if s.checkpoint not in found.seen), None)
    if found.highest is not None:
        found.others = changes_from_best(found.highest, unseen, task, found.headline)
    found.no_best = _no_best(checkpoints, found)
    pairs = [(a, b) for a, b in _stage_pairs(checkpoints) if task in a.tasks and task in b.tasks]
    whole = {(c.first, c.second): c for c in headline_changes([(task, a, b) for a, b in pairs], TABLE, found.headline)}
    for a, b in pairs:
        found.stages += [whole[a.key, b.key]] if (a.key, b.key) in whole else []
        found.stages += form_changes(a, b, task, TABLE)
    return found


def _standings(asked: Sequence[Checkpoint], task: str, forms: Sequence[str]) -> Iterator[Standing]:
    scores = {c.key: headline(c.rows, task, forms) for c in asked}
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
    known = (checkpoints[found.highest].chance(metric_of(found.task, form)) for form in found.headline)
    chances = [chance for chance in known if chance is not None]
    interval = next(s.interval for s in found.standings if s.checkpoint == found.highest)
    if chances and (interval is None or interval[0] <= sum(chances) / len(chances)):
        return f"nothing is above chance, {percent(sum(chances) / len(chances))}"
    level = [checkpoints[c.second].label for c in found.others if c.verdict != "worse"]
    candidates = [s for s in found.standings if s.checkpoint not in found.seen]
    if level or len(found.others) < len(candidates) - 1:
        return f"the highest is not apart from {listed(level) or 'the others'}, by what these items can show"
    return "" if found.others else "there is no other candidate"


def changes_from_best(key: str, candidates: Sequence[Checkpoint], task: str, forms: Sequence[str]) -> list[Contrast]:
    """The headline's change from the best to each other candidate, corrected over all pairs of candidates."""
    (best,) = [c for c in candidates if c.key == key]
    others = [c for c in candidates if c is not best]
    pairs = [(best, other) for other in others] + list(combinations(others, 2))
    return [c for c in headline_changes([(task, a, b) for a, b in pairs], DECISION, forms) if c.first == key]


def is_headline(change: Contrast) -> bool:
    """Whether a change is of a benchmark's headline, not of a single form."""
    return task_of(change)[1] == HEADLINE
