"""Questions on which two checkpoints differ, with the probabilities of both: bounded samples, and their numbers."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import zip_longest
from typing import Any, NamedTuple, TypeVar

from argosy.corpus.text.display import visible
from argosy.evidence.compare.entries import Entry
from argosy.evidence.results.rows import Group
from argosy.evidence.results.values import Record, plain, shared

MOST = 400  # questions that a page embeds
LONGEST, MOST_CHARACTERS = 1500, 900_000  # of one prompt, and of all
T = TypeVar("T")
Key = tuple[str, str, str]  # task, variant, id of the question


class Asked(NamedTuple):
    """A question as it was asked: the prompt, and the text that each score is of; `before`: the text between them.

    `prompts`: of each option, where they differ. `answer`: the right one, where it was generated."""

    prompt: str
    options: tuple[str, ...]
    before: str = ""
    prompts: tuple[str, ...] = ()
    answer: str = ""


@dataclass
class Differing:
    """The questions that differ."""

    entries: Sequence[Entry]
    totals: dict[tuple[int, Group], tuple[int, int]] = field(default_factory=dict)
    """questions that only the second, and only the first, has right; by pair (place of its second), task, variant"""
    chosen: list[Key] = field(default_factory=list)
    """the questions that are shown"""

    @property
    def count(self) -> int:
        """Questions that differ, of all pairs; one that differs in two pairs counts twice."""
        return sum(map(sum, self.totals.values()))


def differing(entries: Sequence[Entry], most: int = MOST) -> Differing:
    """Look for them in every form that was asked, and choose evenly: over pairs, forms, ways and questions."""
    found = Differing(entries)
    buckets: list[list[Key]] = []
    for place, other in enumerate(entries[1:], 1):
        for group in sorted(entries[0].chosen.rows.groups.keys() & other.chosen.rows.groups.keys()):
            gained, lost = _ways(entries[0].chosen.rows.groups[group], other.chosen.rows.groups[group])
            if gained or lost:
                found.totals[place, group] = (len(gained), len(lost))
                buckets += [[(*group, name) for name in way] for way in (gained, lost) if way]
    found.chosen = _evenly(buckets, most)
    return found


def embedded(found: Differing, asked: Mapping[Key, Asked]) -> dict[str, Any]:
    """The data of the page's cards; probabilities are shares of the options' together, in thousandths."""
    rows = [{group: {str(r["id"]): r for r in some} for group, some in e.chosen.rows.groups.items()}
            for e in found.entries]
    groups = sorted({key[:2] for key in found.chosen} | {group for _, group in found.totals})
    left = MOST_CHARACTERS
    items = []
    for key in found.chosen:
        each = [of.get(key[:2], {}).get(key[2]) for of in rows]
        item = _item(key, each, groups.index(key[:2]), asked.get(key))
        left -= len(item.get("p", "")) + sum(len(text or "") for text in (*item.get("o", ()), *item.get("t", ())))
        if left >= 0:
            items.append(item)
    totals = [[place, groups.index(group), *ways] for (place, group), ways in sorted(found.totals.items())]
    return {"groups": [list(group) for group in groups], "totals": totals, "items": items, "count": found.count}


def _ways(first: Sequence[Record], second: Sequence[Record]) -> tuple[list[str], list[str]]:
    """Ids of questions that only the second, and that only the first, has right; of those that can be compared."""
    before, after = (plain([row for row in rows if "correct" in row], "acc") for rows in (first, second))
    both = shared(before, after)
    gains = {key: after[key].value - before[key].value for key in both.keys if not both.others}
    return [key for key, gain in gains.items() if gain > 0], [key for key, gain in gains.items() if gain < 0]


def _evenly(buckets: Sequence[list[Key]], most: int) -> list[Key]:
    """At most `most`: of every bucket as many as it has, up to an equal share, spread over it."""
    share = most // len(buckets) if buckets else 0
    for _ in range(20):  # what small buckets do not use goes to the others
        used = sum(min(len(bucket), share) for bucket in buckets)
        large = sum(len(bucket) > share for bucket in buckets)
        if not large or used + large > most:
            break
        share += (most - used) // large
    chosen = zip_longest(*(_spread(bucket, max(1, share)) for bucket in buckets))  # one of each, then the next
    return list(dict.fromkeys(key for row in chosen for key in row if key is not None))[:most]


def _spread(bucket: Sequence[T], n: int) -> Iterator[T]:
    if len(bucket) <= n:
        yield from bucket
    else:
        yield from (bucket[(2 * i + 1) * len(bucket) // (2 * n)] for i in range(n))


def _item(key: Key, rows: Sequence[Record | None], group: int, asked: Asked | None) -> dict[str, Any]:
    known = next(row for row in rows if row is not None)
    item: dict[str, Any] = {"g": group, "i": visible(key[2]), "l": visible(known.get("lang") or ""),
                            "r": [None if row is None else int(bool(row.get("correct"))) for row in rows]}
    shares = [None if row is None else shares_of(row.get("scores")) for row in rows]
    n = max((len(share) for share in shares if share), default=0)
    if n:
        item["s"] = [share if share and len(share) == n else None for share in shares]
        item["c"] = [None if row is None else row.get("chosen") for row in rows]
        item["y"] = known.get("golds") or known.get("gold")
        if asked is not None and len(asked.options) == n:
            item["o"] = [visible(option) for option in asked.options]
    if asked is not None:
        item["p"] = _cut(visible(asked.prompt))
    if any(row is not None and row.get("text") for row in rows):  # answers that were generated
        item["t"] = [None if row is None else _cut(visible(row.get("text") or "")) for row in rows]
        item["x"] = [None if row is None else visible(row.get("extracted") or "") for row in rows]
    return item


def shares_of(scores: object) -> list[int] | None:
    """Softmax over the options, in thousandths; None where scores are not numbers."""
    if not isinstance(scores, Sequence) or not scores or not all(isinstance(s, int | float) for s in scores):
        return None
    if not all(map(math.isfinite, scores)):
        return None
    highest = max(scores)
    weights = [math.exp(score - highest) for score in scores]
    return [round(1000 * weight / sum(weights)) for weight in weights]


def _cut(text: str) -> str:
    """The end of a prompt is what is asked; the middle of a long one can go."""
    if len(text) <= LONGEST:
        return text
    return f"{text[: LONGEST // 3]}\n⋯ {len(text) - LONGEST:,} characters left out ⋯\n{text[-2 * LONGEST // 3 :]}"
