"""MinHash deduplication beside datatrove's: one process, the same documents, the same shingles, bands and rows.

Both sides compute signatures, write them, find buckets, join clusters and go through the documents once more to leave
copies out. Ours also compares candidates by their sketches, which datatrove does not."""

from collections.abc import Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from argosy.corpus.cleaning.dedup import About, Workspace
from argosy.corpus.cleaning.dedup.near_dedup import NearDedup, NearDedupConfig
from argosy.corpus.cleaning.filter import Resources
from benchmarks.cleaning.peer import Words, batched, compared, documents, in_turns, splitting

BANDS, ROWS, SHINGLE = 14, 8, 5  # of FineWeb, datatrove's defaults
_LANGUAGE = "en"


def ours(texts: Sequence[str], folder: Path) -> list[str]:
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


def datatrove(texts: Sequence[str], folder: Path, words: Words) -> list[str]:
    """Deduplicate with datatrove, its four stages one after the other; return the ids of the documents that stay."""
    with splitting(words):
        for _ in signed(documents(texts), folder):
            pass
    return [document.id for document in selected(documents(texts), folder)]


def signed(found: Iterable[Any], folder: Path) -> Iterable[Any]:
    """Write signatures of datatrove's documents."""
    from datatrove.pipeline.dedup import minhash

    step = minhash.MinhashDedupSignature(str(folder / "signatures"), config=_config(), language=_LANGUAGE)
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


def ratio(texts: Sequence[str], words: Words, rounds: int = 3) -> dict[str, float]:
    """Measure both sides in turns, as `peer.compared` says; what stays is compared by its ids.

    Loops are compiled, and datatrove's words are loaded, by a run over a few documents before."""
    for some, times in ((texts[:20], 1), (texts, rounds)):
        found = in_turns({"ours": partial(ours, some), "datatrove": partial(datatrove, some, words=words)}, times)
    return compared(found, texts)
