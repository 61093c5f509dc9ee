"""Processes that are killed while they save leave no state that claims to be whole and is not.

ARGOSY_TEST_KILLS=100 kills more often."""

import multiprocessing
import os
import random
import signal
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from argosy.core.lazy import torch
from argosy.model.train.memory import PLACE
from argosy.model.train.state import StateStore
from tests.one_weight import OneWeight


def test_no_state_is_torn_whenever_a_process_is_killed(tmp_path: Path) -> None:
    server = multiprocessing.get_context("forkserver")
    server.set_forkserver_preload(["torch", "argosy.model.train.state"])
    rng, steps, newer = random.Random(0), 0, 0
    for _ in range(int(os.environ.get("ARGOSY_TEST_KILLS", "12"))):
        process = server.Process(target=_save_always, args=(tmp_path,))
        process.start()
        time.sleep(0.3 + rng.random())
        os.kill(process.pid, signal.SIGKILL)  # type: ignore[arg-type]
        process.join()
        engine = OneWeight(1_000_000)
        store = _store(tmp_path, engine)
        found = store.load()
        newest = max((int(each.name[5:]) for each in (tmp_path / "state").glob("step-*")), default=0)
        step = int(found["step"]) if found else 0
        assert bool((engine.weight == step).all())
        assert step >= steps
        newer += step > newest
        steps = step
    store.close()
    assert steps > 0
    assert newer > 0  # memory had what the store had not


def _store(out: Path, engine: Any) -> StateStore:
    os.environ[PLACE] = "/dev/shm"
    return StateStore(SimpleNamespace(resume="", keep_every=0), out, engine)  # type: ignore[arg-type]


def _save_always(out: Path) -> None:
    torch.set_num_threads(1)
    engine = OneWeight(1_000_000)
    store = _store(out, engine)
    found = store.load()
    step = int(found["step"]) if found else 0
    while True:
        engine.step()
        step += 1
        store.save(step, {}, kept=step % 5 == 0)
