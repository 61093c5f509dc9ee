"""Filters over a batch of documents: repaired texts, scores, keys for deduplication, and what decides by the scores."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from argosy.core.config.explain import numbered
from argosy.core.lazy import Array, Flags, Floats, Integers32, np
from argosy.corpus.cleaning.batch import Batch
from argosy.corpus.cleaning.filter import Filter, FilterConfig, Rule

KEPT = -1  # the code of a document that no rule drops


@dataclass
class Scored:
    """A batch after all filters.

    Attributes:
        batch: the documents as repaired.
        scores: by "<filter>.<score>", (documents,), float64.
        keys: of each deduplicating filter, arrays by name whose first axis is the documents'.
        changed: names of filters that changed a text -> bool, (documents,)."""

    batch: Batch
    scores: dict[str, Floats] = field(default_factory=dict)
    keys: dict[str, Mapping[str, Array]] = field(default_factory=dict)
    changed: dict[str, Flags] = field(default_factory=dict)


def labels(configs: Sequence[FilterConfig]) -> list[str]:
    """Name filters as their scores are named: a name that comes again has a number, as in "language-2"."""
    return numbered([config.name for config in configs])


def score(batch: Batch, filters: Mapping[str, Filter[Any]]) -> Scored:
    """Run the filters (by label) over a batch, each on what the ones before made of the texts."""
    scored = Scored(batch)
    for label, one in filters.items():
        before = scored.batch
        places = _places(one, before)
        part = before if places is None else Batch([before.documents[at] for at in places])
        after, scores = one(part)
        scored.scores |= {f"{label}.{name}": _spread(values, places, len(batch)) for name, values in scores.items()}
        if after is not part:
            scored.batch = _merged(before, after, places)
            pairs = zip(before.texts, scored.batch.texts, strict=True)
            scored.changed[label] = np.array([old != new for old, new in pairs], np.bool_)
    # Keys are of the texts that will be kept: a place in one of them is a place in the document that is written.
    scored.keys = {label: keys for label, one in filters.items() if (keys := one.keys(scored.batch))}
    return scored


def _places(one: Filter[Any], batch: Batch) -> Sequence[int] | None:
    """Return the numbers of the documents that a repair may change; None: all are looked at."""
    skipped = one.config.skip_channels if one.repairs else ()
    if not skipped or not any(document.channel in skipped for document in batch.documents):
        return None
    return [at for at, document in enumerate(batch.documents) if document.channel not in skipped]


def _spread(values: Floats, places: Sequence[int] | None, count: int) -> Floats:
    if places is None:
        return np.asarray(values, np.float64)
    spread = np.full(count, np.nan)
    spread[list(places)] = values
    return spread


def _merged(before: Batch, after: Batch, places: Sequence[int] | None) -> Batch:
    if places is None:
        return after
    documents = list(before.documents)
    for at, document in zip(places, after.documents, strict=True):
        documents[at] = document
    return Batch(documents)


def decide(filters: Mapping[str, Filter[Any]], scores: Mapping[str, Floats],
           channels: Array) -> tuple[Integers32, list[tuple[str, str]]]:
    """Decide about documents by the rules, in the order of the filters.

    Args:
        scores: by "<filter>.<score>", (documents,).
        channels: name of each document's, (documents,).

    Returns:
        For each document the number of the rule that drops it, or KEPT, (documents,), int32; and all rules as
        (label of the filter, reason)."""
    codes = np.full(len(channels), KEPT, np.int32)
    reasons: list[tuple[str, str]] = []
    for label, one in filters.items():
        looked_at = ~np.isin(channels, one.config.skip_channels)
        for rule in one.rules():
            codes[looked_at & (codes == KEPT) & broken(rule, label, scores)] = len(reasons)
            reasons.append((label, rule.reason))
    return codes, reasons


def broken(rule: Rule, label: str, scores: Mapping[str, Floats]) -> Flags:
    """Tell which documents break the rule of a filter, (documents,); NaN breaks none."""
    values = scores[f"{label}.{rule.score}"]
    outside: Flags = (values < rule.least) | (values > rule.most)
    return outside & broken(rule.also, label, scores) if rule.also else outside
