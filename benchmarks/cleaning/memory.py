"""Peak memory of cleaning over more and more text: `python -m benchmarks.cleaning.memory 25 250 2500`.

One score step reads, filters, and keys all of the text, a compressed JSONL file, and one clean step gathers; each is a
process of its own. Text is that of the other measures, with its paragraphs in ever other orders. Memory is what the
process holds itself; files that it maps are not counted, since the system takes their pages back when it needs
them.

With `--shards 400 2000` time and memory of the clean step alone, which is what a changed threshold costs: one shard of
1,000 documents is scored with the default filters; the others have its texts and scores, and keys of documents that
there are not, a tenth of them copies."""

import argparse
import gzip
import json
import multiprocessing
import os
import threading
import time
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from benchmarks.cleaning import chain
from benchmarks.cleaning.peer import repeated_texts

_BLOCK = 25.0  # MB that are made at a time
_DOCUMENTS, _CHARACTERS = 1000, 1500  # of a shard, of a document
_SKETCH = 64


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


def write_texts(path: Path, megabytes: float) -> int:
    """Write so many MB of documents as JSONL.gz; return their number."""
    path.parent.mkdir(parents=True)
    documents, seed = 0, 0
    with gzip.open(path, "wt", encoding="utf-8", compresslevel=1) as stream:
        while seed * _BLOCK < megabytes:
            for text in repeated_texts(min(_BLOCK, megabytes - seed * _BLOCK), seed):
                stream.write(json.dumps({"id": str(documents), "text": f"{text}\n\nPage {documents}."}) + "\n")
                documents += 1
            seed += 1
    return documents


def measured(megabytes: float, folder: Path) -> dict[str, float]:
    """Clean so many MB; return documents, and `score` and `clean` with the seconds and the peak in MB of each."""
    from steps import clean, data, score

    inputs = (str(folder / "in"),)
    documents = write_texts(folder / "in/texts.jsonl.gz", megabytes)
    found: dict[str, float] = {"megabytes": megabytes, "documents": documents}
    chain.ran(data.STEP, folder / "data", inputs=inputs)
    fields: dict[str, Any] = {"data": str(folder / "data"), "filters": clean.CleanConfig(filters=chain.FILTERS).filters}
    for step, more in ((score, {"inputs": inputs}), (clean, {"scored": (str(folder / "score"),), "memory_mb": 256})):
        name = step.STEP.name
        with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
            seconds, peak = pool.submit(_peak, name, folder / name, fields | more).result()
        found |= {f"{name}_s": round(seconds, 1), f"{name}_mb": round(peak)}
    return found


def _peak(name: str, out: Path, fields: dict[str, Any]) -> tuple[float, float]:
    """Run a step; return seconds and the MB that the process held at most, libraries included."""
    from steps import clean, score

    begin = time.perf_counter()
    with Peak() as peak:
        chain.ran({"score": score, "clean": clean}[name].STEP, out, **fields)
    return time.perf_counter() - begin, peak.most


def score_one(root: Path) -> Path:
    """Score the one shard; return its directory."""
    from steps import clean, data, score

    texts = [f"{text[:_CHARACTERS]} {at}" for at, text in enumerate(repeated_texts(8)[:_DOCUMENTS])]
    chain.write_shards(texts, root / "in", shards=1)
    inputs = (str(root / "in"),)
    chain.ran(data.STEP, root / "data", inputs=inputs)
    chain.ran(score.STEP, root / "one", data=str(root / "data"), inputs=inputs, filters=clean.CleanConfig().filters)
    return root / "one"


def copy_shards(one: Path, folder: Path, count: int) -> list[Path]:
    """Make shards of links to one shard's files, with keys of their own."""
    random = np.random.default_rng(1)
    made = []
    for number in range(count):
        shard = folder / f"{number:05}"
        (shard / "keys").mkdir(parents=True)
        for path in one.iterdir():
            if path.is_file():
                os.link(path, shard / path.name)
        keys = random_keys(random, number * _DOCUMENTS, _DOCUMENTS, 20 + _SKETCH + 2)
        sketches = np.sort((keys[:, 20:-2] >> np.uint64(32)).astype(np.uint32), axis=1)
        for name, values in {"near_dedup.bands": keys[:, :20], "near_dedup.sketches": sketches.reshape(-1),
                             "near_dedup.counts": np.full(_DOCUMENTS, _SKETCH, np.int64),
                             "exact_dedup.hashes": keys[:, -2:]}.items():
            np.save(shard / "keys" / f"{name}.npy", values)
        made.append(shard)
    return made


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


def gathered(root: Path, shards: list[Path], out: Path, memory_mb: int = 1024) -> dict[str, Any]:
    """Clean; return seconds, those of the processor, and the most MB that the process held above those before."""
    from steps import clean

    begin, cpu = time.perf_counter(), time.process_time()
    with Peak() as peak:
        chain.ran(clean.STEP, out, data=str(root / "data"), scored=tuple(map(str, shards)),
                  filters=clean.CleanConfig().filters, memory_mb=memory_mb)
    seconds = time.perf_counter() - begin
    return {"shards": len(shards), "documents": len(shards) * _DOCUMENTS, "seconds": round(seconds, 1),
            "cpu": round(time.process_time() - cpu, 1), "peak_mb": round(peak.most - peak.before)}


def main() -> None:
    """Measure for the sizes that are given."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("megabytes", type=float, nargs="*")
    parser.add_argument("--shards", type=int, nargs="+", default=[], help="clean alone, over so many shards")
    parser.add_argument("--memory-mb", type=int, default=1024, metavar="MB", help="clean.memory_mb, with --shards")
    args = parser.parse_args()
    for megabytes in args.megabytes:
        with TemporaryDirectory() as folder:
            print(json.dumps(measured(megabytes, Path(folder))), flush=True)
    with TemporaryDirectory() as folder:
        root = Path(folder)
        one = score_one(root) if args.shards else root
        for count in (2, *args.shards) if args.shards else ():  # the first loads what is compiled
            shards = copy_shards(one, root / f"shards-{count}", count)
            print(json.dumps(gathered(root, shards, root / f"clean-{count}", args.memory_mb)), flush=True)


if __name__ == "__main__":
    main()
