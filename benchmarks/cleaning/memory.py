"""Peak memory of cleaning over more and more text: `python -m benchmarks.cleaning.memory 25 250 2500`.

One score step reads, filters, and keys all of the text, a compressed JSONL file, and one clean step gathers; each is a
process of its own. Text is that of the other measures, with its paragraphs in ever other orders. Memory is what the
process holds itself; files that it maps are not counted, since the system takes their pages back when it needs
them."""

import argparse
import gzip
import json
import multiprocessing
import threading
import time
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from benchmarks.cleaning import chain
from benchmarks.cleaning.peer import repeated_texts

_BLOCK = 25.0  # MB that are made at a time


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


def main() -> None:
    """Measure for the sizes that are given."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("megabytes", type=float, nargs="+")
    for megabytes in parser.parse_args().megabytes:
        with TemporaryDirectory() as folder:
            print(json.dumps(measured(megabytes, Path(folder))), flush=True)


if __name__ == "__main__":
    main()
