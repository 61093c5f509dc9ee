"""What a reader should know of a comparison: where it is not of the same questions, documents or tokens."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from argosy.comparison.contrast import OTHER_QUESTIONS, OTHER_TOKENS
from argosy.comparison.entry import Entry
from argosy.comparison.shared import ASKED_OTHERWISE
from argosy.comparison.template import template_notes
from argosy.report.chart import short

if TYPE_CHECKING:
    from argosy.comparison.compared import Pair

NEAR = 0.02  # of tokens that two lines have seen, which is as good as equal


def notes_of(entries: Sequence[Entry], pairs: Sequence[Pair]) -> list[str]:
    """What to know of the entries, and of each pair: what they do not share."""
    notes = [note for entry in entries for note in entry.notes]
    for pair in pairs:
        if not pair.contrasts:
            notes.append(f"{pair.first.label} and {pair.second.label} have no metric in common: evaluate both with the "
                         "same suite.")
            continue
        known = [c.tested.n for c in pair.contrasts if c.how == "paired"]
        if not known and any(c.how == "unpaired" for c in pair.contrasts):
            notes.append(f"{pair.first.label} and {pair.second.label} are compared by standard errors: no questions "
                         "of both are at hand to be paired.")
        elsewhere = [c.kind.short for c in pair.contrasts if c.how == OTHER_TOKENS]
        if elsewhere:
            notes.append(f"{', '.join(elsewhere)}: not comparable between {pair.first.label} and {pair.second.label}, "
                         "the suite, the tokens or the documents are not the same.")
        other = [f"{c.kind.family} {c.kind.short}" for c in pair.contrasts if c.how == OTHER_QUESTIONS]
        if other:
            notes.append(f"{', '.join(other)}: not compared between {pair.first.label} and {pair.second.label}, "
                         f"{ASKED_OTHERWISE}: evaluate both with the same suite, seed and data.")
        notes += template_notes(pair) + _otherwise(pair) + _partly(pair) + _elsewhere(pair)
    return list(dict.fromkeys(notes))


def _otherwise(pair: Pair) -> list[str]:
    """Benchmarks of which some questions were asked otherwise, and are left out."""
    found: dict[str, tuple[int, int]] = {}
    for c in pair.contrasts:
        if c.how == "paired" and c.otherwise:
            known = found.get(c.kind.family, (0, 0))
            found[c.kind.family] = max(known, (c.otherwise, c.tested.n + c.otherwise))
    return [f"{family}: {n:,} of {of:,} questions are not compared between {pair.first.label} and {pair.second.label}, "
            f"{ASKED_OTHERWISE}." for family, (n, of) in sorted(found.items())]


def _partly(pair: Pair) -> list[str]:
    """Benchmarks of which the two were asked different questions, in part."""
    found: dict[str, tuple[int, int]] = {}
    for c in pair.contrasts:
        if c.how == "paired" and c.tested.n < c.asked - c.otherwise:
            found[c.kind.family] = max(found.get(c.kind.family, (0, 0)), (c.tested.n, c.asked))
    who = f"{pair.first.label} and {pair.second.label}"
    return [f"{family}: {who} share {n:,} of {asked:,} questions; differences are of these, values of each one's own."
            for family, (n, asked) in sorted(found.items())]


def _elsewhere(pair: Pair) -> list[str]:
    """Two lines that are not as far."""
    first, second = pair.first, pair.second
    if {c.key for c in first.line} & {c.key for c in second.line} or min(len(first.line), len(second.line)) < 2:
        return []
    a, b = first.chosen.tokens, second.chosen.tokens
    if not a or not b or abs(a - b) <= NEAR * max(a, b):
        return []
    return [f"{first.label} has seen {short(a)} tokens, {second.label} {short(b)}: --by tokens compares them at equal "
            "ones."]
