"""Two processes that score a shard each beside one that scores both, as a run has them side by side."""

import multiprocessing
import os
import statistics
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from benchmarks.cleaning import chain

SHARDS = 2


def ratio(texts: Sequence[str], rounds: int) -> dict[str, float]:
    """Measure in turns; return `ratio` (the time of one worker over that of two), `one` and `two` (seconds), and
    `cpu_ratio` (the processor's time of the one over that of the busier of the two), medians.

    Workers have started, loaded their loops and scored once before the clock runs."""
    with TemporaryDirectory() as folder:
        root = Path(folder)
        chain.write_shards(texts, root / "in")
        from steps import data

        chain.ran(data.STEP, root / "data", inputs=(str(root / "in"),))
        taken: dict[int, list[tuple[float, float]]] = {1: [], 2: []}
        pools = {count: ProcessPoolExecutor(count, multiprocessing.get_context("spawn")) for count in taken}
        try:
            for turn in range(rounds + 1):  # the first one starts the workers
                for count, pool in pools.items():
                    begin = time.perf_counter()
                    jobs = [(root, root / f"{turn}-{count}-{shard}", shard) for shard in range(SHARDS)]
                    busy: dict[int, float] = {}
                    for worker, cpu in pool.map(_score, jobs):
                        busy[worker] = busy.get(worker, 0.0) + cpu
                    taken[count].append((time.perf_counter() - begin, max(busy.values())))
        finally:
            for pool in pools.values():
                pool.shutdown()
    one, two = (statistics.median(seconds for seconds, _ in each[1:]) for each in taken.values())
    cpu, busier = (statistics.median(cpu for _, cpu in each[1:]) for each in taken.values())
    return {"ratio": one / two, "cpu_ratio": cpu / busier, "one": one, "two": two, "one_cpu": cpu, "two_cpu": busier}


def _score(job: tuple[Path, Path, int]) -> tuple[int, float]:
    """Score a shard; return the worker's number and its seconds of the processor."""
    from steps import clean, score

    root, out, shard = job
    begin = time.process_time()
    config: Any = clean.CleanConfig(filters=chain.FILTERS)
    chain.ran(score.STEP, out, data=str(root / "data"), inputs=(str(root / "in"),), filters=config.filters,
              shard=shard, shards=SHARDS)
    return os.getpid(), time.process_time() - begin
