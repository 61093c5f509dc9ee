"""Seconds that training waits for a state, beside a save that it waits for.

    python -m benchmarks.checkpoint [--hidden 768] [--rounds 3] [--folder DIR]

A Llama of 113 M parameters, AdamW, float32. In turns: steps alone, steps after a save through shared memory, a save
into the store that training waits for. `stall_ratio`: the seconds that the first kind of save takes of training (the
call, and the optimizer's wait for the copy) over those of the second kind; `slowdown`: a step beside the copy over a
step alone, which shares the processor with it. `restart_ratio`: reading a state from shared memory over reading it from
the disk, whose pages are dropped first. The last line is JSON. (tests/end_to_end/model/train/test_torn.py counts the
states that kills leave behind.)"""

import argparse
import json
import os
import statistics
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from types import SimpleNamespace
from typing import Any

import numpy as np

from argosy.core.lazy import torch
from argosy.corpus.tokens.mixture import Batch
from argosy.model.train.config import TrainConfig
from argosy.model.train.config.model import ModelConfig
from argosy.model.train.parallelism import Group

VOCABULARY, LENGTH = 8192, 256
FIELDS = {"tokenized": "", "tokens": LENGTH * 10, "sequence_length": LENGTH, "global_batch_size": 1, "threads": 2,
          "micro_batch_size": 1, "engine": "torch", "dtype": "float32", "document_mask": False}


def main() -> None:
    parser = argparse.ArgumentParser("python -m benchmarks.checkpoint", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--hidden", type=int, default=768)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--folder", help="where the store is (default: a temporary one)")
    args = parser.parse_args()
    with TemporaryDirectory(dir=args.folder) as folder:
        found = stalls(Path(folder), args.hidden, args.rounds)
    print(json.dumps({"name": "checkpoint", **found}))


def stalls(folder: Path, hidden: int, rounds: int) -> dict[str, float]:
    """Measure the waits of both kinds of save, and of both kinds of restart."""
    from argosy.model.train.engines import make_engine
    from argosy.model.train.phase import build_model

    shape = ModelConfig(num_hidden_layers=15, hidden_size=hidden, intermediate_size=hidden * 11 // 4,
                        num_attention_heads=12, num_key_value_heads=12)  # fmt: skip
    model = build_model(shape, VOCABULARY, {"bos_token_id": 0, "eos_token_id": 0, "pad_token_id": 0})
    torch.set_num_threads(2)
    engine = make_engine(model, 1, TrainConfig(**FIELDS), Group())
    ours, theirs = (store_at(folder / name, engine, place) for name, place in (("ours", "/dev/shm"), ("theirs", "")))
    alone, beside, stalled, waited = [], [], [], []
    _step(engine)
    for number in range(1, rounds + 2):
        alone.append(_step(engine))
        before = ours.memory.waited
        start = time.perf_counter()
        ours.save(number, {})
        called = time.perf_counter() - start
        beside.append(_step(engine))
        stalled.append(called + ours.memory.waited - before)
        ours.memory.flush()
        start = time.perf_counter()
        theirs.save(number, {})
        waited.append(time.perf_counter() - start)
    state = next(ours.memory.folder.glob("step-*"))
    memory = min(_restart(engine, state) for _ in range(rounds))
    disk = min(_restart(engine, state, folder / f"ours/state/{state.name}") for _ in range(rounds))
    size = sum(path.stat().st_size for path in state.iterdir())
    ours.close()
    median = [statistics.median(each[1:]) for each in (alone, beside, stalled, waited)]  # the first makes the memory
    return {"parameters": model.num_parameters(), "state_gb": round(size / 1e9, 2), "step_s": round(median[0], 3),
            "slowdown": round(median[1] / median[0], 3), "stall_s": round(median[2], 4), "save_s": round(median[3], 3),
            "stall_ratio": round(median[2] / median[3], 4), "restart_s": round(memory, 2),
            "restart_ratio": round(memory / disk, 3)}  # fmt: skip


def store_at(out: Path, engine: Any, place: str) -> Any:
    """Return the store of an engine's states in `out`, with shared memory at `place`."""
    from argosy.model.train.memory import PLACE
    from argosy.model.train.state import StateStore

    os.environ[PLACE] = place
    return StateStore(SimpleNamespace(resume="", keep_every=0), out, engine)  # type: ignore[arg-type]


def _step(engine: Any) -> float:
    numbers = np.random.default_rng(0).integers(0, VOCABULARY, (1, LENGTH))
    start = time.perf_counter()
    engine.train_step(Batch(numbers, numbers, np.zeros_like(numbers), np.zeros_like(numbers)), 1e-4)
    return time.perf_counter() - start


def _restart(engine: Any, state: Path, on_disk: Path | None = None) -> float:
    for path in on_disk.iterdir() if on_disk else ():
        with open(path, "rb") as file:
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
    start = time.perf_counter()
    engine.load(on_disk or state)
    return time.perf_counter() - start


if __name__ == "__main__":
    main()
