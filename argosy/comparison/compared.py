"""The comparison: every metric of every entry, and each entry against the first."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase

from argosy.comparison.contrast import Contrast, Side, alike, contrast
from argosy.comparison.entry import Entry
from argosy.comparison.headlines import add_headlines
from argosy.comparison.kinds import HEADLINE, families, kind_of, order
from argosy.comparison.notes import notes_of
from argosy.comparison.seen import seen
from argosy.contamination.evidence import seen_of
from argosy.errors import InputError
from argosy.report.answers import sorted_rows
from argosy.report.checkpoints import Checkpoint
from argosy.report.comparison import TaskComparison
from argosy.statistics import benjamini_hochberg

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
        seen: by benchmark, who has likely seen it, with the detail.
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
        entry.chosen.seen |= seen_of(entry.rows)
    add_headlines(entries)
    every = {name for entry in entries for name in entry.chosen.metrics}
    matching = [n for n in every if any(fnmatchcase(n, glob) for glob in globs)] if globs else sorted(every)
    if globs and not matching:
        some = ", ".join(sorted(every)[:5])
        raise InputError(f"--metrics {' '.join(globs)} matches none of {len(every)} metrics, such as {some}")
    shown = set(matching) if globs or everything else _shown(every, entries) or every
    pairs = [_pair(entries[0], other, shown) for other in entries[1:]]
    tests = _correct(pairs)
    alone = sorted(n for n in shown if sum(n in e.chosen.metrics for e in entries) == 1) if len(entries) > 1 else []
    return Compared(list(entries), pairs, _sorted(shown), sorted(every - shown), alone, tests, notes_of(entries, pairs),
                    seen(entries))


def _sorted(names: set[str]) -> list[str]:
    every = sorted(names)
    place = {family: number for number, family in enumerate(families(every))}
    return sorted(every, key=lambda name: (place[kind_of(name).family], order(name), name))


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
    both = [n for n in _sorted(names) if n in first.chosen.metrics and n in second.chosen.metrics
            and not n.endswith("/chance")]  # it is the questions', not the model's
    labels = (first.label, second.label)
    sides = ((n, alike(n, _side(first, n), _side(second, n), first.rows, second.rows)) for n in both)
    return Pair(first, second, [contrast(n, labels, *each) for n, each in sides])


def _side(entry: Entry, name: str) -> Side:
    c: Checkpoint = entry.chosen
    values = entry.headlines.get(name) or entry.rows.values(name)
    return Side(c.metrics[name], c.stderr.get(name, math.nan), values, int(c.counts.get(name) or 0))


def _correct(pairs: Sequence[Pair]) -> int:
    tested = {(n, i): c.tested.p_value for n, pair in enumerate(pairs) for i, c in enumerate(pair.contrasts)
              if c.tested.p_value is not None}
    adjusted = benjamini_hochberg(tested)
    for n, pair in enumerate(pairs):
        found = [replace(c, p_adjusted=adjusted.get((n, i))) for i, c in enumerate(pair.contrasts)]
        pair.contrasts = sorted(found, key=lambda c: (-c.importance, c.name))
    return len(tested)
