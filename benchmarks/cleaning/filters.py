"""Quality filters beside datatrove's: one process each, the same documents, the papers' thresholds.

datatrove's filters run one after the other on what the one before has kept, as in its own pipelines; ours look at every
document. Both sides make their documents from the texts, decide, and give back the texts that stay."""

import importlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from argosy.corpus.cleaning.filter import Filter, Resources
from argosy.corpus.cleaning.filters import make_filters, parse_filters
from argosy.corpus.cleaning.recipes import GOPHER_QUALITY
from argosy.corpus.cleaning.scoring import KEPT, decide, score
from benchmarks.cleaning.peer import Words, batched, compared, documents, in_turns, splitting

PAPERS: Mapping[str, Mapping[str, Any]] = {
    "gopher_repetition": {"lettered_pieces": False},
    "gopher_quality": GOPHER_QUALITY,
    "c4_quality": {"line_ends": ".?!\"'"},
    "c4_paragraphs": {},
    "fineweb_quality": {"chinese_short_line": 30}
}  # fmt: skip
"""The thresholds of the papers, which are datatrove's defaults, for our filters."""
PEERS = {
    "gopher_repetition": ("gopher_repetition_filter", "GopherRepetitionFilter"),
    "gopher_quality": ("gopher_quality_filter", "GopherQualityFilter"),
    "c4_quality": ("c4_filters", "C4QualityFilter"), "c4_paragraphs": ("c4_filters", "C4ParagraphFilter"),
    "fineweb_quality": ("fineweb_quality_filter", "FineWebQualityFilter")
}  # fmt: skip
CHAIN = ("gopher_repetition", "gopher_quality", "c4_quality", "fineweb_quality")  # of FineWeb, in its order


def our_filters(names: Sequence[str] = CHAIN) -> dict[str, Filter[Any]]:
    """Make our filters with the papers' thresholds."""
    configs: Any = parse_filters([{"name": name, **PAPERS[name]} for name in names])
    return make_filters(configs, Resources())


def ours(texts: Sequence[str]) -> list[str]:
    """Filter with Argosy; return what stays."""
    filters, kept = our_filters(), []
    for batch in batched(texts):
        scored = score(batch, filters)
        codes, _ = decide(filters, scored.scores, np.full(len(batch), "web"))
        kept += [text for text, code in zip(scored.batch.texts, codes, strict=True) if code == KEPT]
    return kept


def peer_filter(name: str) -> Any:
    """Make datatrove's filter of the same rules, with its defaults."""
    module, kind = PEERS[name]
    return getattr(importlib.import_module(f"datatrove.pipeline.filters.{module}"), kind)()


def datatrove(texts: Sequence[str], words: Words) -> list[str]:
    """Filter with datatrove; return what stays."""
    chain = [peer_filter(name) for name in CHAIN]
    with splitting(words):
        found: Any = documents(texts)
        for one in chain:
            found = one.run(found)
        return [document.text for document in found]


def ratio(texts: Sequence[str], words: Words, rounds: int = 3) -> dict[str, float]:
    """Measure both sides in turns, as `peer.compared` says; what stays is compared by its texts.

    Loops are compiled, and datatrove's words are loaded, by a run over a few documents before."""
    ours(texts[:20])
    datatrove(texts[:20], words)
    sides = {"ours": lambda _: ours(texts), "datatrove": lambda _: datatrove(texts, words)}
    return compared(in_turns(sides, rounds), texts)
