"""The comparison of entries: every metric of each, and each against the first."""

from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase

from argosy.core.errors import InputError
from argosy.evidence.compare.changes import change
from argosy.evidence.compare.checkpoints import headline_of, kind_among
from argosy.evidence.compare.entries import Compared, Entry, Pair
from argosy.evidence.compare.metrics import HEADLINE, Kind, chances, families, order
from argosy.evidence.compare.notes import notes_of
from argosy.evidence.compare.test import corrected
from argosy.evidence.compare.traces import suspects


def add_headlines(entries: Sequence[Entry]) -> None:
    """The headline of each benchmark, over the forms that all were asked in: as a whole, and of each language."""
    for task in sorted({task for e in entries for task in e.chosen.headline}):
        having = [e for e in entries if e.chosen.headline.get(task)]
        forms = sorted(set.intersection(*(set(e.chosen.headline[task]) for e in having)))
        for e in having if len(forms) > 1 else ():
            langs = sorted(set(e.chosen.rows.langs(task).values()))
            for name in (task, *(f"{task}_{lang}" for lang in langs if len(langs) > 1)):
                e.chosen.add_headline(name, forms)


def compare(entries: Sequence[Entry], globs: Sequence[str] = (), *, everything: bool = False) -> Compared:
    """Compare each entry to the first, metric by metric; p-values are corrected over all that is shown.

    `globs`: patterns of metrics to show, such as `bench/*/plain/*`; none: those that say most. `everything`: all
    metrics, instead of those that say most. Raises InputError: no metric matches."""
    add_headlines(entries)
    chosen = [e.chosen for e in entries]
    kinds = {name: kind_among(name, chosen) for c in chosen for name in c.metrics}
    matching = {n for n in kinds if any(fnmatchcase(n, glob) for glob in globs)}
    if globs and not matching:
        some = ", ".join(sorted(kinds)[:5])
        raise InputError(f"--metrics {' '.join(globs)} matches none of {len(kinds)} metrics, such as {some}")
    shown = matching or (set() if everything else _shown(kinds, entries)) or set(kinds)
    place = {family: number for number, family in enumerate(families(shown))}
    metrics = sorted(shown, key=lambda name: (place[kinds[name].family], order(name, kinds[name]), name))
    pairs = [_pair(entries[0], other, metrics, kinds) for other in entries[1:]]
    adjusted = iter(corrected([c for pair in pairs for c in pair.contrasts]))
    for pair in pairs:
        own = [next(adjusted) for _ in pair.contrasts]
        pair.contrasts = sorted(own, key=lambda c: (-c.importance, c.name))
    tests = sum(c.p_adjusted is not None for pair in pairs for c in pair.contrasts)
    alone = sorted(n for n in shown if sum(n in e.chosen.metrics for e in entries) == 1) if len(entries) > 1 else []
    return Compared(list(entries), pairs, metrics, sorted(kinds.keys() - shown), alone, tests,
                    notes_of(entries, pairs, metrics, kinds), suspects(chosen), kinds)


def _shown(kinds: Mapping[str, Kind], entries: Sequence[Entry]) -> set[str]:
    """The metrics that say most: no minor measure; of a benchmark's languages the headline, where it has one."""
    tasks = {task for e in entries for task in e.chosen.headline}
    found = set()
    for name in kinds:
        parts = name.split("/")
        whole = parts[1].rpartition("_")[0] if parts[0] == "bench" and len(parts) == 4 else ""
        by_form = whole in tasks and parts[2] != HEADLINE and headline_of(parts[1]) in kinds
        if not by_form and not kinds[name].minor:
            found.add(name)
    return found


def _pair(first: Entry, second: Entry, names: Sequence[str], kinds: Mapping[str, Kind]) -> Pair:
    both = [n for n in names if n in first.chosen.metrics and n in second.chosen.metrics
            and n not in chances(kinds)]  # they are the questions', not the model's
    found = [change(n, first.chosen, second.chosen, kind=kinds[n]) for n in both]
    return Pair(first, second, [c for c in found if c is not None])
