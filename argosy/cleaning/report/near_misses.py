"""Near misses: documents a little above or below the threshold of a rule, by which one sees where it cuts."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from argosy.cleaning.filter import Filter, Rule
from argosy.cleaning.gathering import Decisions, margins
from argosy.cleaning.report.funnel import SAMPLE_CHARACTERS, read_rows
from argosy.cleaning.scoring import KEPT
from argosy.cleaning.shard import ScoredShard

_NEAR = 0.25  # of a threshold: what is further away is no near miss


@dataclass(frozen=True, order=True)
class _Near:
    """A document near a threshold; the nearest one comes first, of equally near ones the first of the corpus."""

    distance: float
    shard: int
    row: int
    value: float


def near_misses(
    filters: Mapping[str, Filter[Any]], shards: Sequence[ScoredShard], decisions: Decisions, count: int
) -> list[dict[str, Any]]:
    """Find for each rule the `count` nearest documents that it dropped, and the `count` nearest that stay at last,
    within a quarter of its threshold.

    Returns:
        Rows of filter, reason, score, value, limit (the threshold that is near), kept (whether the document stays),
        id, channel, and text (its beginning); by the filters' order, the dropped ones first, the nearest first."""
    numbers = {reason: code for code, reason in enumerate(decisions.reasons)}
    found = []
    for label, one in filters.items():
        for rule in one.rules():
            if (code := numbers.get((label, rule.reason))) is not None:
                found += [(label, rule, kept, near) for kept in (False, True)
                          for near in _nearest(label, one, rule, shards, decisions, KEPT if kept else code, count)]
    texts = _texts(shards, [near for *_, near in found])
    return [{"filter": label, "reason": rule.reason, "score": rule.score, "value": float(f"{near.value:.6g}"),
             "limit": _limit(rule, near.value), "kept": kept, **texts[near.shard, near.row]}
            for label, rule, kept, near in found]


def _nearest(
    label: str, one: Filter[Any], rule: Rule, shards: Sequence[ScoredShard], decisions: Decisions, code: int, count: int
) -> list[_Near]:
    """Return the documents with this code that are nearest to a threshold of the rule, on the side that it says."""
    import numpy as np

    near: list[_Near] = []
    for number, shard in enumerate(shards):
        own = (decisions.codes[number] == code) & ~shard.in_channels(one.config.skip_channels)
        if not own.any():
            continue
        values = shard.scores[f"{label}.{rule.score}"]
        distances = margins(rule, values) * (1 if code == KEPT else -1)
        nothing = (values == 0) & (code == KEPT)  # at a threshold of 0 as far from it as can be
        rows = np.flatnonzero(own & (distances >= 0) & (distances <= _NEAR) & ~nothing)
        rows = rows[np.argsort(distances[rows], kind="stable")[:count]]
        near += [_Near(float(distances[row]), number, row, float(values[row])) for row in rows.tolist()]
        near = sorted(near)[:count]
    return near


def _limit(rule: Rule, value: float) -> float:
    """Return the threshold that is nearer."""
    return min((rule.least, rule.most), key=lambda limit: abs(limit - value))


def _texts(shards: Sequence[ScoredShard], found: Sequence[_Near]) -> dict[tuple[int, int], dict[str, str]]:
    texts: dict[tuple[int, int], dict[str, str]] = {}
    for number in sorted({near.shard for near in found}):
        rows = sorted({near.row for near in found if near.shard == number})
        read = read_rows(shards[number], rows, ("id", "channel", "text"))
        for row, (name, channel, text) in zip(rows, read, strict=True):
            texts[number, row] = {"id": name, "channel": channel, "text": text[:SAMPLE_CHARACTERS]}
    return texts
