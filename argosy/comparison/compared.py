"""The comparison: every metric of every entry, and each entry against the first."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase

from argosy.comparison.contrast import OTHER_TOKENS, Contrast, Side, contrast
from argosy.comparison.entry import Entry
from argosy.comparison.kinds import HEADLINE, families, kind_of, order
from argosy.comparison.rows import Value, total
from argosy.comparison.seen import seen
from argosy.errors import InputError
from argosy.report.answers import sorted_rows
from argosy.report.checkpoints import Checkpoint
from argosy.report.comparison import TaskComparison
from argosy.statistics import benjamini_hochberg, mean

SECTIONS = ("better", "worse", "changed", "same", "cannot tell", "untested")


@dataclass
class Pair:
    """An entry against the first; contrasts of the metrics that both have, the most important first."""

    first: Entry
    second: Entry
    contrasts: list[Contrast] = field(default_factory=list)

    def section(self, verdict: str) -> list[Contrast]:
        """Those of one verdict."""
        return [c for c in self.contrasts if c.verdict == verdict]


@dataclass
class Compared:
    """Attributes:
        metrics: names that are shown, by family; those that at least one entry has.
        hidden: names that only `--all` shows.
        alone: names that only one entry has.
        tests: how many p-values were corrected together.
        seen: by benchmark, traces of having seen it.
    """

    entries: list[Entry]
    pairs: list[Pair]
    metrics: list[str]
    hidden: list[str]
    alone: list[str]
    tests: int
    notes: list[str]
    seen: list[TaskComparison] = field(default_factory=list)


def compare(entries: Sequence[Entry], globs: Sequence[str] = (), *, everything: bool = False) -> Compared:
    """Compare each entry to the first, metric by metric; p-values are corrected over all that is shown (Benjamini
    and Hochberg: of what is called better or worse, 5 % is noise on average).

    Args:
        globs: patterns of metrics to show, such as `bench/*/plain/*`; none: those that say most.
        everything: all metrics, instead of those that say most.

    Raises:
        InputError: no metric matches.
    """
    for entry in entries:
        found = sorted_rows(row for group in entry.rows.groups.values() for row in group)
        entry.chosen.answers, entry.chosen.orders = found.answers, found.orders
    _add_headlines(entries)
    every = {name for entry in entries for name in entry.chosen.metrics}
    matching = [n for n in every if any(fnmatchcase(n, glob) for glob in globs)] if globs else sorted(every)
    if globs and not matching:
        some = ", ".join(sorted(every)[:5])
        raise InputError(f"--metrics {' '.join(globs)} matches none of {len(every)} metrics, such as {some}")
    shown = set(matching) if globs or everything else _shown(every, entries) or every
    pairs = [_pair(entries[0], other, shown) for other in entries[1:]]
    tests = _correct(pairs)
    alone = sorted(n for n in shown if sum(n in e.chosen.metrics for e in entries) == 1) if len(entries) > 1 else []
    return Compared(list(entries), pairs, _sorted(shown), sorted(every - shown), alone, tests, _notes(entries, pairs),
                    seen(entries))


def _sorted(names: set[str]) -> list[str]:
    every = sorted(names)
    place = {family: number for number, family in enumerate(families(every))}
    return sorted(every, key=lambda name: (place[kind_of(name).family], order(name), name))


def _add_headlines(entries: Sequence[Entry]) -> None:
    """The headline of each benchmark, over the forms that all were asked in: as a whole, and of each language."""
    for task in sorted({task for e in entries for task in e.chosen.headline}):
        having = [e for e in entries if e.chosen.headline.get(task)]
        forms = sorted(set.intersection(*(set(e.chosen.headline[task]) for e in having)))
        for e in having if len(forms) > 1 else ():
            values, langs = e.rows.headline(task, forms), e.rows.langs(task)
            _add(e, task, values, forms)
            for lang in sorted(set(langs.values())) if len(set(langs.values())) > 1 else ():
                _add(e, f"{task}_{lang}", {item: v for item, v in values.items() if langs.get(item) == lang}, forms)


def _add(entry: Entry, task: str, values: dict[str, Value], forms: list[str]) -> None:
    if values:
        name, c = f"bench/{task}/{HEADLINE}/acc", entry.chosen
        estimate = mean([v.value for v in values.values()], [v.unit for v in values.values()])
        c.metrics[name], c.counts[name] = total(values), estimate.n
        if math.isfinite(estimate.stderr):
            c.stderr[name] = estimate.stderr
        entry.headlines[name], entry.forms[name] = values, forms


def _shown(every: set[str], entries: Sequence[Entry]) -> set[str]:
    """What says most: no minor measure; of a benchmark's languages the headline, where it has one."""
    tasks = {task for e in entries for task in e.chosen.headline}
    found = set()
    for name in every:
        parts = name.split("/")
        whole = parts[1].rpartition("_")[0] if parts[0] == "bench" and len(parts) == 4 else ""
        by_form = whole in tasks and parts[2] != HEADLINE and f"bench/{parts[1]}/{HEADLINE}/acc" in every
        if not by_form and not kind_of(name).minor:
            found.add(name)
    return found


def _pair(first: Entry, second: Entry, names: set[str]) -> Pair:
    both = [n for n in _sorted(names) if n in first.chosen.metrics and n in second.chosen.metrics]
    labels = (first.label, second.label)
    return Pair(first, second, [contrast(n, labels, _side(first, n), _side(second, n)) for n in both])


def _side(entry: Entry, name: str) -> Side:
    c: Checkpoint = entry.chosen
    values = entry.headlines.get(name) or entry.rows.values(name)
    return Side(c.metrics[name], c.stderr.get(name, math.nan), values)


def _correct(pairs: Sequence[Pair]) -> int:
    tested = {(n, i): c.tested.p_value for n, pair in enumerate(pairs) for i, c in enumerate(pair.contrasts)
              if c.tested.p_value is not None}
    adjusted = benjamini_hochberg(tested)
    for n, pair in enumerate(pairs):
        found = [replace(c, p_adjusted=adjusted.get((n, i))) for i, c in enumerate(pair.contrasts)]
        pair.contrasts = sorted(found, key=lambda c: (-c.importance, c.name))
    return len(tested)


def _notes(entries: Sequence[Entry], pairs: Sequence[Pair]) -> list[str]:
    notes = [note for entry in entries for note in entry.notes]
    for pair in pairs:
        if not pair.contrasts:
            notes.append(f"{pair.first.label} and {pair.second.label} have no metric in common: evaluate both with the "
                         "same suite.")
            continue
        known = [c.tested.n for c in pair.contrasts if c.how == "paired"]
        if not known:
            notes.append(f"{pair.first.label} and {pair.second.label} are compared by standard errors: no questions "
                         "of both are at hand to be paired.")
        elsewhere = [c.kind.short for c in pair.contrasts if c.how == OTHER_TOKENS]
        if elsewhere:
            notes.append(f"{', '.join(elsewhere)}: not comparable between {pair.first.label} and {pair.second.label}, "
                         "the tokens or the documents are not the same.")
    return list(dict.fromkeys(notes))
