"""Who has seen the test, in sentences."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from argosy.contamination.verdict import CANNOT_TELL, NOT_SEEN, Seen
from argosy.report.contamination import Suspicion
from argosy.report.words import listed, points
from argosy.statistics import Interval

NAMED = 3  # reasons that a sentence gives


def unseen(found: Mapping[str, Mapping[str, Seen]]) -> Iterator[tuple[str, str]]:
    """By whom which tests were not seen (kind `clean`), and of whom that cannot be told and why (`note`).

    Args:
        found: by benchmark and label of a checkpoint.
    """
    clean = {(task, who): seen for task, of in found.items() for who, seen in of.items() if seen.verdict == NOT_SEEN}
    if clean:
        (task, who), most = max(clean.items(), key=lambda each: each[1].found.score if each[1].found else 0.0)
        yield "clean", (f"Not seen, as far as these items can show: {_places(clean, found)}. The highest score is that "
                        f"of {who} on {task}, {most.interval}; 0 is as clean models.")
    reasons: dict[str, list[tuple[str, str]]] = {}
    for task, of in found.items():
        for who, seen in of.items():
            if seen.verdict == CANNOT_TELL:
                reasons.setdefault(seen.why, []).append((task, who))
    if reasons:
        parts = [f"{_places(places, found)} ({why})" for why, places in list(reasons.items())[:NAMED]]
        more = [f"{len(reasons) - NAMED} more"] if len(reasons) > NAMED else []
        yield "note", f"Cannot tell whether it was seen: {'; '.join([*parts, *more])}."


def _places(places: Iterable[tuple[str, str]], found: Mapping[str, Mapping[str, Seen]]) -> str:
    """`facts and science; mmlu by sft`: a benchmark alone where it is of all of its checkpoints."""
    of: dict[str, list[str]] = {}
    for task, who in places:
        of.setdefault(task, []).append(who)
    whole = [task for task, names in of.items() if len(names) == len(found[task])]
    parts = [f"{listed(whole)} by {'any' if len(found[whole[0]]) > 1 else of[whole[0]][0]}"] if whole else []
    return "; ".join([*parts, *(f"{task} by {listed(names)}" for task, names in of.items() if task not in whole)])


def evidence(s: Suspicion, labels: dict[str, str]) -> str:
    """What speaks for a checkpoint having seen the test: its score, what other orders cost, the lead that shrinks."""
    text = f"{labels[s.checkpoint]} has likely seen the test: {s.seen.numbers}."
    for trace in s.traces:
        if trace.shows and trace.chance == 0:
            gap = points(Interval(trace.value, trace.low, trace.high), sign=False)
            text += f" Other orders of the same options cost it {gap}."
    lost = [lead for lead in s.leads if lead.lost.low > 0]
    if s.reference is None or not lost:
        return text
    most = max(s.leads, key=lambda lead: lead.lost.value)
    return (f"{text} Its lead over {labels[s.reference]}, {100 * s.leads[0].plain:+.1f} points as published, shrinks "
            f"in {len(lost)} of {len(s.leads)} other forms, most in {most.variant.replace('_', ' ')}, to "
            f"{100 * most.changed:+.1f}.")
