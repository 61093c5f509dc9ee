"""Documents of which the cuts of several filters, each within its limit, leave too little together."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from argosy.cleaning.dedup.spans import SpanDeduplicator, join_spans
from argosy.cleaning.filter import Filter
from argosy.cleaning.gathering import Decisions
from argosy.cleaning.kept import without
from argosy.cleaning.scored import ScoredCorpus

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from argosy.cleaning.batch import Integers

_SHORT = 64  # characters: of so few it is looked whether they are all space


def drop_leftovers(filters: Mapping[str, Filter[Any]], corpus: ScoredCorpus, decisions: Decisions) -> None:
    """Drop documents that are kept, and of which more is cut than the largest `max_share` of the filters that cut, or
    all but space: by the last of these filters, as its other drops."""
    import numpy as np

    cutting = {label: one for label, one in filters.items() if isinstance(one, SpanDeduplicator)
               and len(decisions.spans.get(label, ()))}
    if not cutting:
        return
    spans = np.concatenate([decisions.spans[label] for label in cutting])
    spans = spans[decisions.kept[spans[:, 0]]]
    cuts = join_spans(spans[np.lexsort((spans[:, 1], spans[:, 0]))])
    documents, which = np.unique(cuts[:, 0], return_inverse=True)
    sizes = np.bincount(which, cuts[:, 2] - cuts[:, 1], minlength=len(documents)).astype(np.int64)
    lengths = _lengths(corpus, next(iter(cutting)), documents)
    gone = sizes > max(one.config.max_share for one in cutting.values()) * lengths
    short = np.flatnonzero(~gone & (lengths - sizes <= _SHORT))
    bounds = np.searchsorted(cuts[:, 0], [documents[short], documents[short] + 1])
    for at, text, begin, end in zip(short, corpus.texts(documents[short]), *bounds, strict=True):
        gone[at] = not without(text, cuts[begin:end, 1:].tolist()).strip()
    label, one = list(cutting.items())[-1]
    decisions.codes[documents[gone]] = decisions.code(label, one.reasons[0])
    copies = np.concatenate([decisions.copies[label], np.column_stack([documents[gone]] * 2)])
    decisions.copies[label] = copies[np.argsort(copies[:, 0], kind="stable")]


def _lengths(corpus: ScoredCorpus, label: str, documents: "Integers") -> "npt.NDArray[np.int64]":
    """Return the code points of documents, ascending, by the keys of a filter that cuts."""
    import numpy as np

    found = [np.asarray(corpus.shards[number].keys(label)["lengths"][rows], np.int64)
             for number, rows in corpus.places(documents)]
    return np.concatenate([np.zeros(0, np.int64), *found])
