"""Time and memory of the clean step alone, over more and more scored shards: what a changed threshold costs.

    python -m benchmarks.cleaning.gather 400 2000

One shard of 1,000 documents is scored with the default filters; the others have its texts and scores, and keys of
documents that there are not, a tenth of them copies."""

import argparse
import json
import os
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from benchmarks.cleaning import chain
from benchmarks.cleaning.memory import Peak
from benchmarks.cleaning.peer import repeated_texts

_DOCUMENTS = 1000  # of a shard
_CHARACTERS = 1500  # of a document
_SKETCH = 64


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


def measure(root: Path, shards: list[Path], out: Path, memory_mb: int = 1024) -> dict[str, Any]:
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
    """Measure for the numbers of shards that are given."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("shards", type=int, nargs="+")
    parser.add_argument("--memory-mb", type=int, default=1024, metavar="MB", help="clean.memory_mb")
    args = parser.parse_args()
    with TemporaryDirectory() as folder:
        root = Path(folder)
        one = score_one(root)
        for count in (2, *args.shards):  # the first loads what is compiled
            shards = copy_shards(one, root / f"shards-{count}", count)
            print(json.dumps(measure(root, shards, root / f"clean-{count}", args.memory_mb)), flush=True)


if __name__ == "__main__":
    main()
