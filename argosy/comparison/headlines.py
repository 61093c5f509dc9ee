"""The headline of each benchmark: one number, for each item the mean over the forms that ask for knowledge."""

from __future__ import annotations

import math
from collections.abc import Sequence

from argosy.comparison.entry import Entry
from argosy.comparison.kinds import HEADLINE
from argosy.comparison.values import Value, total
from argosy.statistics import mean


def add_headlines(entries: Sequence[Entry]) -> None:
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
