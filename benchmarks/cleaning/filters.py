"""Quality filters and MinHash deduplication beside datatrove's: one process each, the same documents, thresholds,
shingles, bands and rows.

datatrove's filters run one after the other on what the one before has kept, as in its own pipelines; ours look at every
document. Both sides make their documents from the texts, decide, and give back the texts that stay. Of MinHash both
compute signatures, write them, find buckets, join clusters and go through the documents once more to leave copies out.
Ours also compares candidates by their sketches, which datatrove does not."""

import importlib
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from argosy.corpus.cleaning.dedup import About, Workspace
from argosy.corpus.cleaning.dedup.near_dedup import NearDedup, NearDedupConfig
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


def filtered(texts: Sequence[str], _: Path | None = None) -> list[str]:
    """Filter with Argosy; return what stays."""
    filters, kept = our_filters(), []
    for batch in batched(texts):
        scored = score(batch, filters)
        codes = decide(filters, scored.scores, np.full(len(batch), "web"))[0]
        kept += [text for text, code in zip(scored.batch.texts, codes, strict=True) if code == KEPT]
    return kept


def peer_filter(name: str) -> Any:
    """Make datatrove's filter of the same rules, with its defaults."""
    module, kind = PEERS[name]
    return getattr(importlib.import_module(f"datatrove.pipeline.filters.{module}"), kind)()


def filtered_by_peer(texts: Sequence[str], _: Path, words: Words) -> list[str]:
    """Filter with datatrove; return what stays."""
    chain = [peer_filter(name) for name in CHAIN]
    with splitting(words):
        found: Any = documents(texts)
        for one in chain:
            found = one.run(found)
        return [document.text for document in found]


BANDS, ROWS, SHINGLE = 14, 8, 5  # of FineWeb, datatrove's defaults


def deduplicated(texts: Sequence[str], folder: Path) -> list[str]:
    """Deduplicate with Argosy; return the ids of the documents that stay."""
    one = NearDedup(NearDedupConfig(bands=BANDS, rows=ROWS, shingle=SHINGLE), Resources())
    sizes = []
    for number, batch in enumerate(batched(texts)):
        for name, values in one.keys(batch).items():
            np.save(folder / f"{number}.{name}.npy", values)
        sizes.append(len(batch))
    keys = [{name: np.load(folder / f"{number}.{name}.npy", mmap_mode="r") for name in ("bands", "counts", "sketches")}
            for number in range(len(sizes))]
    lengths = np.array([len(text) for text in texts])
    about = About(sizes, np.zeros(len(texts), np.int64), ["web"], lengths)
    found = one.select(keys, np.ones(len(texts), np.bool_), about, Workspace(folder / "work"))
    gone = set(found.documents.tolist())
    return [str(at) for at, _ in enumerate(texts) if at not in gone]


def deduplicated_by_peer(texts: Sequence[str], folder: Path, words: Words) -> list[str]:
    """Deduplicate with datatrove, its four stages one after the other; return the ids of the documents that stay."""
    with splitting(words):
        for _ in signed(documents(texts), folder):
            pass
    return [document.id for document in selected(documents(texts), folder)]


def signed(found: Iterable[Any], folder: Path) -> Iterable[Any]:
    """Write signatures of datatrove's documents."""
    from datatrove.pipeline.dedup import minhash

    step = minhash.MinhashDedupSignature(str(folder / "signatures"), config=_config(), language="en")
    step.run(found, rank=0, world_size=1)
    return ()


def selected(found: Iterable[Any], folder: Path) -> Iterable[Any]:
    """Return those of datatrove's documents that are no copies, by the signatures that were written."""
    from datatrove.pipeline.dedup import minhash

    config = _config()
    buckets = minhash.MinhashDedupBuckets(str(folder / "signatures"), str(folder / "buckets"), config=config)
    for bucket in range(BANDS):
        buckets.run(None, rank=bucket, world_size=BANDS)
    minhash.MinhashDedupCluster(str(folder / "buckets"), str(folder / "remove"), config=config).run(None, 0, 1)
    kept: Iterable[Any] = minhash.MinhashDedupFilter(str(folder / "remove")).run(found, rank=0, world_size=1)
    return kept


def _config() -> Any:
    from datatrove.pipeline.dedup import minhash

    return minhash.MinhashConfig(n_grams=SHINGLE, num_buckets=BANDS, hashes_per_bucket=ROWS)


_SIDES: Mapping[str, tuple[Any, Any]] = {
    "filters": (filtered, filtered_by_peer), "minhash": (deduplicated, deduplicated_by_peer)
}  # fmt: skip


def ratio(kind: str, texts: Sequence[str], words: Words, rounds: int) -> dict[str, float]:
    """Measure both sides of `filters` or `minhash` in turns, as `peer.compared` says; what stays is compared by texts
    or ids.

    Loops are compiled, and datatrove's words are loaded, by a run over a few documents before."""
    ours, peer = _SIDES[kind]
    for some, times in ((texts[:20], 1), (texts, rounds)):
        found = in_turns({"ours": partial(ours, some), "datatrove": partial(peer, some, words=words)}, times)
    return compared(found, texts)
