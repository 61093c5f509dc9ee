"""The whole chain beside datatrove: Parquet is read, repaired by ftfy's rules, filtered as FineWeb was,
deduplicated by MinHash, freed of addresses, and written as Parquet.

Ours are the steps `data`, `score` and `clean` as a run has them, and a pass over what they keep. datatrove's are the
stages of its FineWeb example: what filters keep is written, and read again for signatures and for the last filter.
And two processes that score, as a run has them side by side, beside one."""

import multiprocessing
import os
import statistics
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from argosy.core.step.contract import Progress, Step, StepContext
from argosy.core.store.files import write_json
from argosy.core.tracking.tracker import Tracker
from argosy.corpus.cleaning.kept import KeptCorpus
from benchmarks import side_by_side
from benchmarks.cleaning import filters
from benchmarks.cleaning.peer import Words, compared, in_turns, splitting

_COMPRESSION, _SHARDS = "zstd", 2  # of two workers
FILTERS = [{"name": "unicode"},
           *({"name": name, **filters.PAPERS[name]} for name in filters.CHAIN),
           {"name": "near_dedup", "bands": filters.BANDS, "rows": filters.ROWS, "shingle": filters.SHINGLE},
           {"name": "pii"}]


def write_shards(texts: Sequence[str], folder: Path, shards: int = 4) -> None:
    """Write the documents as Parquet files; the id of each is its file and row."""
    folder.mkdir(parents=True, exist_ok=True)
    for number in range(shards):
        name = f"{number:05}.parquet"
        some = texts[number * len(texts) // shards : (number + 1) * len(texts) // shards]
        _write(folder / name, [(f"{name}:{row}", text) for row, text in enumerate(some, 1)])


def _write(path: Path, rows: Sequence[tuple[str, str]]) -> None:
    import pyarrow as pa
    from pyarrow import parquet

    ids, texts = zip(*rows, strict=True) if rows else ((), ())
    parquet.write_table(pa.table({"id": pa.array(ids, pa.string()), "text": pa.array(texts, pa.string())}), path,
                        compression=_COMPRESSION)


def ours(inputs: Path, folder: Path) -> list[str]:
    """Clean a folder with Argosy; return files and rows of the documents that stay."""
    from steps import clean, data, score

    ran(data.STEP, folder / "data", inputs=(str(inputs),))
    config: Any = clean.CleanConfig(filters=FILTERS)
    ran(score.STEP, folder / "score", data=str(folder / "data"), inputs=(str(inputs),), filters=config.filters)
    ran(clean.STEP, folder / "clean", data=str(folder / "data"), scored=(str(folder / "score"),),
        filters=config.filters)
    kept = KeptCorpus.of(str(folder / "clean"), [str(folder / "score")])
    rows = [(each.id, each.text) for each in kept.documents()]
    _write(folder / "out.parquet", rows)
    return [name.rpartition("/")[2] for name, _ in rows]


def ran(step: Step[Any], out: Path, **fields: Any) -> None:
    """Run a step in this process."""
    out.mkdir(parents=True)
    context = StepContext(out, Tracker(out / "tracking"), Progress(None))
    write_json(out / "outputs.json", {"outputs": step.run(step.config(**fields), context).model_dump()})


def datatrove(inputs: Path, folder: Path, words: Words) -> list[str]:
    """Clean a folder with datatrove; return files and rows of the documents that stay."""
    from datatrove.pipeline.formatters import FTFYFormatter, PIIFormatter
    from datatrove.pipeline.readers import ParquetReader
    from datatrove.pipeline.writers import ParquetWriter

    def read(where: Path) -> Any:
        return ParquetReader(str(where)).run(rank=0, world_size=1)

    def writer(name: str) -> Any:
        return ParquetWriter(str(folder / name), compression=_COMPRESSION)

    chain = [FTFYFormatter(), *(filters.peer_filter(name) for name in filters.CHAIN)]
    with splitting(words):
        found: Any = read(inputs)
        for one in (*chain, writer("filtered")):
            found = one.run(found, rank=0, world_size=1)
        for _ in found:
            pass
        filters.signed(read(folder / "filtered"), folder)
    last: Any = PIIFormatter().run(filters.selected(read(folder / "filtered"), folder), rank=0, world_size=1)
    return [document.id for document in writer("out").run(last, rank=0, world_size=1)]


def ratio(texts: Sequence[str], words: Words, rounds: int) -> dict[str, float]:
    """Measure both sides in turns, as `peer.compared` says; what stays is compared by its place."""
    with TemporaryDirectory() as folder:
        for number, times in ((20, 1), (len(texts), rounds)):
            inputs = Path(folder, f"{words}-{number}")
            write_shards(texts[:number], inputs)
            found = in_turns({"ours": partial(ours, inputs), "datatrove": partial(datatrove, inputs, words=words)},
                             times)
    return compared(found, texts)


def two_workers(texts: Sequence[str], rounds: int) -> dict[str, float]:
    """Measure two processes that score a shard each beside one that scores both, in turns; return `ratio` (the time of
    one worker over that of two), `one` and `two` (seconds), and `cpu_ratio` (the processor's time of the one over that
    of the busier of the two), medians.

    Workers have started, loaded their loops and scored once before the clock runs."""
    from steps import data

    with TemporaryDirectory() as folder:
        root = Path(folder)
        write_shards(texts, root / "in")
        ran(data.STEP, root / "data", inputs=(str(root / "in"),))
        with _workers(1) as one, _workers(2) as two:
            sides = {name: partial(_score_all, pool, root) for name, pool in (("one", one), ("two", two))}
            side_by_side.in_turns(sides, 1)  # starts the workers
            turns = side_by_side.in_turns(sides, rounds)
    seconds, cpu = ({name: statistics.median(turn.seconds if clock else turn.result for turn in each)
                     for name, each in turns.items()} for clock in (True, False))
    return {"ratio": seconds["one"] / seconds["two"], "cpu_ratio": cpu["one"] / cpu["two"], **seconds,
            "one_cpu": cpu["one"], "two_cpu": cpu["two"]}


def _workers(count: int) -> ProcessPoolExecutor:
    return ProcessPoolExecutor(count, multiprocessing.get_context("spawn"))


def _score_all(pool: ProcessPoolExecutor, root: Path) -> float:
    """Score all shards; return the processor's time of the busiest worker."""
    busy: dict[int, float] = {}
    with TemporaryDirectory(dir=root) as out:
        for worker, cpu in pool.map(_score, [(root, Path(out) / str(shard), shard) for shard in range(_SHARDS)]):
            busy[worker] = busy.get(worker, 0.0) + cpu
    return max(busy.values())


def _score(job: tuple[Path, Path, int]) -> tuple[int, float]:
    """Score a shard; return the worker's number and its seconds of the processor."""
    from steps import clean, score

    root, out, shard = job
    begin = time.process_time()
    config: Any = clean.CleanConfig(filters=FILTERS)
    ran(score.STEP, out, data=str(root / "data"), inputs=(str(root / "in"),), filters=config.filters, shard=shard,
        shards=_SHARDS)
    return os.getpid(), time.process_time() - begin
