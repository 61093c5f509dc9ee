"""Memory and time of deduplication over keys alone: of documents that there are not, so that they may be many.

    python -m benchmarks.cleaning.keys 1000000 4000000

A tenth of the documents are copies of others. Memory is what the process holds itself; files that it maps are not
counted, since the system takes their pages back when it needs them."""

import argparse
import threading
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from argosy.corpus.cleaning.dedup import About, Deduplicator, Workspace
from argosy.corpus.cleaning.dedup.exact_dedup import ExactDedup, ExactDedupConfig
from argosy.corpus.cleaning.dedup.near_dedup import NearDedup, NearDedupConfig
from argosy.corpus.cleaning.filter import Resources

_SKETCH = 64  # hashes of a document: its text would be of as many words
_SHARD = 250_000  # documents


def held() -> float:
    """Return the MB of memory of this process, without mapped files."""
    status = Path("/proc/self/status").read_text(encoding="ascii")
    return int(status.split("RssAnon:")[1].split()[0]) / 1024


class Peak:
    """The most memory that is held while the block runs, above what was held before."""

    def __enter__(self) -> "Peak":
        self.before = self.most = held()
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._watch)
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._end.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._end.wait(0.02):
            self.most = max(self.most, held())


def write_keys(folder: Path, documents: int) -> None:
    """Write keys of shards: random ones, and a tenth that are those of a document before."""
    random = np.random.default_rng(1)
    config = NearDedupConfig()
    for number, first in enumerate(range(0, documents, _SHARD)):
        size = min(_SHARD, documents - first)
        keys = random_keys(random, first, size, config.bands + _SKETCH + 2)
        np.save(folder / f"{number:05}.bands.npy", keys[:, : config.bands])
        np.save(folder / f"{number:05}.hashes.npy", keys[:, -2:])
        sketches = np.sort((keys[:, config.bands : config.bands + _SKETCH] >> np.uint64(32)).astype(np.uint32), axis=1)
        np.save(folder / f"{number:05}.sketches.npy", sketches.reshape(-1))
        np.save(folder / f"{number:05}.counts.npy", np.full(size, _SKETCH, np.int64))


def random_keys(random: np.random.Generator, first: int, size: int, columns: int) -> Any:
    """Return keys of `size` documents from the number `first` on, (size, columns), uint64: a hash of each document's
    number, or of an earlier one's for a tenth."""
    of = np.arange(first, first + size, dtype=np.uint64)
    copies = random.random(size) < 0.1
    of[copies] = (random.random(int(copies.sum())) * of[copies]).astype(np.uint64)
    return _mixed(of[:, None] * np.uint64(1024) + np.arange(columns, dtype=np.uint64))


def _mixed(values: Any) -> Any:
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        values = (values ^ (values >> np.uint64(shift))) * np.uint64(factor)
    return values ^ (values >> np.uint64(31))


def measure(one: Deduplicator[Any], folder: Path, documents: int, memory_mb: int) -> dict[str, Any]:
    """Deduplicate; return seconds, the peak of memory in MB, and how many documents go."""
    sizes = [min(_SHARD, documents - first) for first in range(0, documents, _SHARD)]
    names = ("hashes",) if one.name == "exact_dedup" else ("bands", "sketches", "counts")
    keys = [{name: np.load(folder / f"{number:05}.{name}.npy", mmap_mode="r") for name in names}
            for number in range(len(sizes))]
    about = About(sizes, np.zeros(documents, np.int8), ["web"], np.zeros(documents, np.int8))
    kept = np.ones(documents, np.bool_)
    begin = time.perf_counter()
    with Peak() as peak:
        found = one.select(keys, kept, about, Workspace(folder / "work", memory_mb))
    return {"filter": one.name, "documents": documents, "memory_mb": memory_mb, "dropped": len(found.documents),
            "seconds": round(time.perf_counter() - begin, 1), "peak_mb": round(peak.most - peak.before)}


def main() -> None:
    """Measure for the numbers of documents that are given."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("documents", type=int, nargs="+")
    parser.add_argument("--memory-mb", type=int, nargs="+", default=[256])
    arguments = parser.parse_args()
    filters = (ExactDedup(ExactDedupConfig(), Resources()), NearDedup(NearDedupConfig(sketch=_SKETCH), Resources()))
    for documents in (20_000, *arguments.documents):  # the first compiles
        for memory in arguments.memory_mb:
            with TemporaryDirectory() as folder:
                write_keys(Path(folder), documents)
                for one in filters:
                    print(measure(one, Path(folder), documents, memory), flush=True)


if __name__ == "__main__":
    main()
