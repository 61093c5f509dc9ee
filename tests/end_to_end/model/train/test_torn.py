"""Processes that are killed while they save leave no state that claims to be whole and is not.

ARGOSY_TEST_KILLS=100 kills more often."""

import multiprocessing
import os
import random
import signal
import time
from pathlib import Path

from argosy.core.lazy import torch
from argosy.model.train.parallelism import Group
from benchmarks.checkpoint import store_at


class Counter:
    """An engine of one weight, all of whose numbers are its step."""

    group, holds_parts = Group(), True

    def __init__(self) -> None:
        self.weight = torch.nn.Parameter(torch.zeros(1_000_000))
        self.optimizer = torch.optim.SGD([self.weight], lr=1.0)

    def step(self) -> None:
        self.weight.grad = -torch.ones_like(self.weight)
        self.optimizer.step()

    def save(self, directory: Path) -> None:
        from argosy.model.train.engines.parts import everywhere, write_parts

        write_parts(directory, self.group, [("weight/w", everywhere(self.weight.shape), lambda: self.weight)])

    def load(self, directory: Path) -> None:
        from argosy.model.train.engines.parts import Parts

        with torch.no_grad():
            self.weight.copy_(Parts(directory)["weight/w"])


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
        engine = Counter()
        store = store_at(tmp_path, engine, "/dev/shm")
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


def _save_always(out: Path) -> None:
    torch.set_num_threads(1)
    engine = Counter()
    store = store_at(out, engine, "/dev/shm")
    found = store.load()
    step = int(found["step"]) if found else 0
    while True:
        engine.step()
        step += 1
        store.save(step, {}, kept=step % 5 == 0)
