"""A comparison in a few sentences, the most important first; every number in them is one of its contrasts."""

from __future__ import annotations

from collections.abc import Iterator

from argosy.comparison.compared import Compared, Pair
from argosy.comparison.contrast import Contrast
from argosy.comparison.kinds import HEADLINE
from argosy.comparison.scoreboard import likely_seen
from argosy.comparison.text import amount, difference_text, p_text, unit_of
from argosy.contamination.verdict import LIKELY
from argosy.report.seen import evidence, unseen
from argosy.report.words import listed

NAMED = 3  # metrics that a sentence names


def sentences(found: Compared) -> list[tuple[str, str]]:
    """(kind, text); kind: `seen` (likely) or `clean` (of the test), `better`, `worse`, `level` or `note`."""
    told = list(_seen(found))
    said = [each for each in told if each[0] == "seen"]
    said += [each for pair in found.pairs if pair.contrasts for each in _pair(pair)]
    if len(found.entries) == 1:
        said.append(("note", f"{found.entries[0].label} alone: name a second checkpoint to compare it with."))
    said += [each for each in told if each[0] != "seen"]
    return said + [("note", note) for note in found.notes]


def _seen(found: Compared) -> Iterator[tuple[str, str]]:
    labels = {e.chosen.key: e.label for e in found.entries}
    for task in found.seen:
        for suspicion in task.suspicions:
            if suspicion.level == LIKELY:
                yield "seen", f"{task.task}: {evidence(suspicion, labels)}"
    yield from unseen({t.task: {labels[s.checkpoint]: s.seen for s in t.suspicions} for t in found.seen})


def _pair(pair: Pair) -> Iterator[tuple[str, str]]:
    first, second = pair.first.label, pair.second.label
    for verdict, words in (("better", "is better than"), ("worse", "is worse than")):
        here = pair.section(verdict)
        if here:
            yield verdict, f"{second} {words} {first} in {_count(here, pair)}: {_named(here)}{_doubt(here, pair)}."
    if not pair.section("better") and not pair.section("worse"):
        yield "level", (f"Nothing tells {second} from {first}: none of {len(pair.contrasts)} metrics differs beyond "
                        "noise.")
    yield from _headlines(pair)
    noise = [("same", "no difference that matters"), ("cannot tell", "too noisy to say")]
    parts = [f"{words} in {len(pair.section(verdict))}" for verdict, words in noise if pair.section(verdict)]
    if parts and (pair.section("better") or pair.section("worse")):
        yield "level", f"Of the rest of {second} against {first}: {listed(parts)}."


def _headlines(pair: Pair) -> Iterator[tuple[str, str]]:
    """The benchmarks' one numbers that do not differ beyond noise."""
    whole = [c for c in pair.contrasts if c.name.endswith(f"/{HEADLINE}/acc") and c.kind.short == HEADLINE]
    for verdict, words in (("same", "no difference beyond"), ("cannot tell", "cannot tell, differences up to")):
        here = sorted((c for c in whole if c.verdict == verdict), key=lambda c: c.kind.family)
        if here:
            names = listed([c.kind.family for c in here])
            amounts = listed([amount(c, c.most) for c in here])
            possible = " are possible" if verdict == "cannot tell" else ""
            plural = "s" if len(here) > 1 else ""
            who = f"{pair.second.label} against {pair.first.label}"
            yield "level", f"{who} in the headline{plural} of {names}: {words} {amounts}{possible}."


def _doubt(here: list[Contrast], pair: Pair) -> str:
    """How many of these metrics are of benchmarks that one of the two has likely seen."""
    known = likely_seen(pair)
    doubted = [c for c in here if c.kind.family in known and c.name.startswith("bench/")]
    if not doubted:
        return ""
    tests = listed(sorted({c.kind.family for c in doubted}))
    return f" ({len(doubted)} of these {'is' if len(doubted) == 1 else 'are'} of {tests}, which was likely seen)"


def _count(here: list[Contrast], pair: Pair) -> str:
    whole = len(pair.contrasts)
    return f"{len(here)} of {whole} metrics" if whole > 1 else "the one metric of both"


def _named(here: list[Contrast]) -> str:
    parts = [f"{c.kind.family} {c.kind.short} {difference_text(c)} {unit_of(c.kind)}".rstrip()
             + f" (p {p_text(c.p_adjusted)})" for c in here[:NAMED]]
    more = len(here) - NAMED
    return "; ".join(parts) + (f"; and {more} more" if more > 0 else "")
