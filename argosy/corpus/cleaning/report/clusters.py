"""Clusters of copies for the report: how many there are, how large, and the largest of them."""

from collections import Counter
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from argosy.corpus.cleaning.filter import Filter
from argosy.corpus.cleaning.gathering import Decisions
from argosy.corpus.cleaning.report.funnel import SAMPLE_CHARACTERS
from argosy.corpus.cleaning.scored import ScoredCorpus
from argosy.corpus.cleaning.scoring import KEPT

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

_COPIES = 5  # of a cluster that are named


def clusters(
    filters: Mapping[str, Filter[Any]], corpus: ScoredCorpus, decisions: Decisions, count: int
) -> dict[str, Any]:
    """Describe the clusters of copies by filter.

    Returns:
        By filter: `compared_by` (text, words, or "" where a form is not its to choose), `clusters`, `copies` that
        went, `of_earlier` corpora among them, `sizes` (documents of a cluster, the
        one that stays included, in powers of two: "2", "3-4", "5-8", ... -> clusters), and `largest`, `count` of them:
        the id and beginning of the document that stays, the filter that has dropped it later or "", the number of its
        copies, and ids of the first ones."""
    return {label: {"compared_by": str(getattr(filters[label].config, "normalise", "")),
                    **_describe(corpus, decisions, copies, count)} for label, copies in decisions.copies.items()}


def _describe(
    corpus: ScoredCorpus, decisions: Decisions, copies: "npt.NDArray[np.int64]", count: int
) -> dict[str, Any]:
    import numpy as np

    ours = copies[(copies[:, 1] >= 0) & (copies[:, 1] != copies[:, 0])]
    kept, times = np.unique(ours[:, 1], return_counts=True)
    powers = np.ceil(np.log2(times + 1)).astype(np.int64)
    sizes = {_named(power): number for power, number in sorted(Counter(powers.tolist()).items())}
    largest = []
    for at in np.lexsort((kept, -times))[:count].tolist():
        members = ours[ours[:, 1] == kept[at], 0][:_COPIES]
        [(name, text)] = corpus.rows(kept[at : at + 1], ("id", "text"))
        code = int(decisions.codes[kept[at]])
        largest.append({"id": name, "copies": int(times[at]), "text": text[:SAMPLE_CHARACTERS],
                        "later": "" if code == KEPT else decisions.reasons[code][0],
                        "first": [member for member, in corpus.rows(members, ("id",))]})
    return {"clusters": len(kept), "copies": len(copies), "of_earlier": int((copies[:, 1] < 0).sum()), "sizes": sizes,
            "largest": largest}


def _named(power: int) -> str:
    low, high = 2 ** (power - 1) + 1, 2**power
    return str(high) if low == high else f"{low}-{high}"
