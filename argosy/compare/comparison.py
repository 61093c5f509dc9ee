"""The comparison of entries: every metric of each, and each against the first."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from fnmatch import fnmatchcase

from argosy.compare.checkpoints import Checkpoint, side_of
from argosy.compare.entries import Compared, Entry, Pair
from argosy.compare.metrics import ACCURACY, HEADLINE, Kind, families, order
from argosy.compare.notes import notes_of
from argosy.compare.test import Side, alike, contrast, corrected
from argosy.compare.traces import suspects
from argosy.errors import InputError
from argosy.evaluation.rows.values import Value
from argosy.statistics.multiple import TABLE, Method


def add_headlines(entries: Sequence[Entry]) -> None:
    """The headline of each benchmark, over the forms that all were asked in: as a whole, and of each language."""
    for task in sorted({task for e in entries for task in e.chosen.headline}):
        having = [e for e in entries if e.chosen.headline.get(task)]
        forms = sorted(set.intersection(*(set(e.chosen.headline[task]) for e in having)))
        for e in having if len(forms) > 1 else ():
            values, langs = e.chosen.rows.headline(task, forms), e.chosen.rows.langs(task)
            _add(e, task, values, forms)
            for lang in sorted(set(langs.values())) if len(set(langs.values())) > 1 else ():
                _add(e, f"{task}_{lang}", {item: v for item, v in values.items() if langs.get(item) == lang}, forms)


def _add(entry: Entry, task: str, values: dict[str, Value], forms: list[str]) -> None:
    if values:
        name, c, side = f"bench/{task}/{HEADLINE}/acc", entry.chosen, side_of(values)
        c.metrics[name], c.counts[name], c.kinds[name] = side.value, side.count, ACCURACY
        if math.isfinite(side.stderr):
            c.stderr[name] = side.stderr
        entry.headlines[name], entry.forms[name] = values, forms


def compare(entries: Sequence[Entry], globs: Sequence[str] = (), *, everything: bool = False,
            method: Method = TABLE) -> Compared:
    """Compare each entry to the first, metric by metric; p-values are corrected over all that is shown.

    Args:
        globs: patterns of metrics to show, such as `bench/*/plain/*`; none: those that say most.
        everything: all metrics, instead of those that say most.
        method: of the correction.

    Raises:
        InputError: no metric matches.
    """
    add_headlines(entries)
    kinds = _kinds([e.chosen for e in entries])
    matching = {n for n in kinds if any(fnmatchcase(n, glob) for glob in globs)}
    if globs and not matching:
        some = ", ".join(sorted(kinds)[:5])
        raise InputError(f"--metrics {' '.join(globs)} matches none of {len(kinds)} metrics, such as {some}")
    shown = matching or (set() if everything else _shown(kinds, entries)) or set(kinds)
    metrics = _sorted(shown, kinds)
    pairs = [_pair(entries[0], other, metrics, kinds) for other in entries[1:]]
    tests = _correct(pairs, method)
    alone = sorted(n for n in shown if sum(n in e.chosen.metrics for e in entries) == 1) if len(entries) > 1 else []
    return Compared(list(entries), pairs, metrics, sorted(kinds.keys() - shown), alone, tests,
                    notes_of(entries, pairs, metrics, kinds), suspects([e.chosen for e in entries]), kinds, method)


def _kinds(checkpoints: Sequence[Checkpoint]) -> dict[str, Kind]:
    """The kinds of all metrics, as the results say of whichever checkpoint declares them."""
    found: dict[str, Kind] = {}
    for c in checkpoints:
        for name in c.metrics:
            if name not in found or not found[name].declared:
                found[name] = c.kind(name)
    return found


def _sorted(names: Collection[str], kinds: Mapping[str, Kind]) -> list[str]:
    place = {family: number for number, family in enumerate(families(names))}
    return sorted(names, key=lambda name: (place[kinds[name].family], order(name, kinds[name]), name))


def _shown(kinds: Mapping[str, Kind], entries: Sequence[Entry]) -> set[str]:
    """The metrics that say most: no minor measure; of a benchmark's languages the headline, where it has one."""
    tasks = {task for e in entries for task in e.chosen.headline}
    found = set()
    for name in kinds:
        parts = name.split("/")
        whole = parts[1].rpartition("_")[0] if parts[0] == "bench" and len(parts) == 4 else ""
        by_form = whole in tasks and parts[2] != HEADLINE and f"bench/{parts[1]}/{HEADLINE}/acc" in kinds
        if not by_form and not kinds[name].minor:
            found.add(name)
    return found


def _pair(first: Entry, second: Entry, names: Sequence[str], kinds: Mapping[str, Kind]) -> Pair:
    both = [n for n in names if n in first.chosen.metrics and n in second.chosen.metrics
            and not n.endswith("/chance")]  # it is the questions', not the model's
    rows = (first.chosen.rows, second.chosen.rows)
    found = [contrast(n, kinds[n], (first.label, second.label), *alike(n, _side(first, n), _side(second, n), *rows))
             for n in both]
    return Pair(first, second, found)


def _side(entry: Entry, name: str) -> Side:
    c = entry.chosen
    values = entry.headlines.get(name) or c.rows.values(name)
    return Side(c.metrics[name], c.stderr.get(name, math.nan), values, int(c.counts.get(name) or 0))


def _correct(pairs: Sequence[Pair], method: Method) -> int:
    found = iter(corrected([c for pair in pairs for c in pair.contrasts], method))
    for pair in pairs:
        own = [next(found) for _ in pair.contrasts]
        pair.contrasts = sorted(own, key=lambda c: (-c.importance, c.name))
    return sum(c.p_adjusted is not None for pair in pairs for c in pair.contrasts)
