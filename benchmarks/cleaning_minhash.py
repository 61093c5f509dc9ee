"""MinHash deduplication beside datatrove's: one process, the same documents, the same shingles, bands and rows.

Both sides compute signatures, write them, find buckets, join clusters and go through the documents once more to leave
copies out. Ours also compares candidates by their sketches, which datatrove does not."""

import logging
import re
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Literal

import numpy as np

from argosy.cleaning.batch import Batch
from argosy.cleaning.dedup import About, Workspace
from argosy.cleaning.dedup.near_dedup import NearDedup, NearDedupConfig
from argosy.cleaning.filter import Resources
from argosy.data.schemas import Document
from argosy.text.scripts import HAN

BANDS, ROWS, SHINGLE = 14, 8, 5  # of FineWeb, datatrove's defaults
_BATCH = 2_000_000  # characters, as the score step
_LANGUAGE = "en"
Words = Literal["spacy", "regex"]


class RegexWords:
    """Words as ours, by a regular expression: the fastest that datatrove can be given."""

    _words = re.compile(rf"[{HAN}]|[^\W{HAN}]+")

    def word_tokenize(self, text: str) -> list[str]:
        """Split a text into words."""
        return self._words.findall(text)


def ours(texts: Sequence[str], folder: Path) -> int:
    """Deduplicate with Argosy; return how many documents stay."""
    one = NearDedup(NearDedupConfig(bands=BANDS, rows=ROWS, shingle=SHINGLE), Resources())
    parts = []
    for number, batch in enumerate(_batches(texts)):
        for name, values in one.keys(batch).items():
            np.save(folder / f"{number}.{name}.npy", values)
        parts.append((number, len(batch)))
    keys = [{name: np.load(folder / f"{number}.{name}.npy", mmap_mode="r") for name in ("bands", "counts", "sketches")}
            for number, _ in parts]
    lengths = np.array([len(text) for text in texts])
    about = About([size for _, size in parts], np.zeros(len(texts), np.int64), ["web"], lengths)
    found = one.select(keys, np.ones(len(texts), np.bool_), about, Workspace(folder / "work"))
    gone = set(found.documents.tolist())
    return len([text for at, text in enumerate(texts) if at not in gone])


def _batches(texts: Sequence[str]) -> Iterator[Batch]:
    held: list[Document] = []
    size = 0
    for at, text in enumerate(texts):
        held.append(Document(str(at), text, "web"))
        size += len(text)
        if size >= _BATCH:
            yield Batch(held)
            held, size = [], 0
    if held:
        yield Batch(held)


def datatrove(texts: Sequence[str], folder: Path, words: Words) -> int:
    """Deduplicate with datatrove, its four stages one after the other; return how many documents stay."""
    from datatrove.data import Document as Theirs
    from datatrove.pipeline.dedup import minhash
    from loguru import logger

    logger.remove()
    config = minhash.MinhashConfig(n_grams=SHINGLE, num_buckets=BANDS, hashes_per_bucket=ROWS)
    signatures = _signatures(minhash, str(folder / "signatures"), config, words)
    signatures.run(_theirs(Theirs, texts), rank=0, world_size=1)
    buckets = minhash.MinhashDedupBuckets(str(folder / "signatures"), str(folder / "buckets"), config=config)
    for bucket in range(BANDS):
        buckets.run(None, rank=bucket, world_size=BANDS)
    minhash.MinhashDedupCluster(str(folder / "buckets"), str(folder / "remove"), config=config).run(None, 0, 1)
    kept = minhash.MinhashDedupFilter(str(folder / "remove")).run(_theirs(Theirs, texts), rank=0, world_size=1)
    return sum(1 for _ in kept)


def _signatures(minhash: Any, folder: str, config: Any, words: Words) -> Any:
    if words == "spacy":
        return minhash.MinhashDedupSignature(folder, config=config, language=_LANGUAGE)
    load = minhash.load_word_tokenizer
    minhash.load_word_tokenizer = lambda language: RegexWords()  # it has none of its own that is as fast
    try:
        return minhash.MinhashDedupSignature(folder, config=config, language=_LANGUAGE)
    finally:
        minhash.load_word_tokenizer = load


def _theirs(kind: Any, texts: Sequence[str]) -> Iterator[Any]:
    return (kind(text=text, id=str(at)) for at, text in enumerate(texts))


def _seconds(run: Callable[[Path], int]) -> tuple[float, int]:
    with TemporaryDirectory() as folder:
        begin = time.perf_counter()
        kept = run(Path(folder))
        return time.perf_counter() - begin, kept


def ratio(texts: Sequence[str], words: Words, rounds: int = 3) -> dict[str, float]:
    """Measure both sides in turns; return `ratio` (how many times as fast ours is, by medians), `ours` and `datatrove`
    (seconds), and `ours_kept` and `datatrove_kept` (documents).

    Loops are compiled, and datatrove's words are loaded, by a run over a few documents before."""
    logging.disable(logging.INFO)
    for run in (ours, lambda some, folder: datatrove(some, folder, words)):
        _seconds(lambda folder, run=run: run(texts[:20], folder))  # type: ignore[misc]
    mine, theirs = [], []
    for _ in range(rounds):
        mine.append(_seconds(lambda folder: ours(texts, folder)))
        theirs.append(_seconds(lambda folder: datatrove(texts, folder, words)))
    fast, slow = (statistics.median(seconds for seconds, _ in side) for side in (mine, theirs))
    return {"ratio": slow / fast, "ours": fast, "datatrove": slow, "ours_kept": mine[0][1],
            "datatrove_kept": theirs[0][1]}


if __name__ == "__main__":
    _texts = [path.read_text(encoding="utf-8") for root in sys.argv[1:] for path in sorted(Path(root).rglob("*.md"))]
    print(ratio(_texts, "regex"))
