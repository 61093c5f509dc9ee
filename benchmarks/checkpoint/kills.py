"""Processes that are killed while they save, and what they leave behind."""

import multiprocessing
import os
import random
import signal
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from argosy.core.lazy import torch
from argosy.model.train.parallelism import Group


def store_at(out: Path, engine: Any, place: str) -> Any:
    """Return the store of an engine's states in `out`, with shared memory at `place`."""
    from argosy.model.train.memory import PLACE
    from argosy.model.train.state import StateStore

    os.environ[PLACE] = place
    return StateStore(SimpleNamespace(resume=""), out, engine)  # type: ignore[arg-type]


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


def kills(folder: Path, number: int) -> dict[str, int]:
    """Kill a process that saves without a pause, and count what it left behind."""
    server = multiprocessing.get_context("forkserver")
    server.set_forkserver_preload(["torch", "argosy.model.train.state"])
    rng, torn, steps, memory = random.Random(0), 0, 0, 0
    for _ in range(number):
        process = server.Process(target=_save_always, args=(folder / "killed",))
        process.start()
        time.sleep(0.3 + rng.random())
        os.kill(process.pid, signal.SIGKILL)  # type: ignore[arg-type]
        process.join()
        engine = Counter()
        store = store_at(folder / "killed", engine, "/dev/shm")
        found = store.load()
        newest = max((int(each.name[5:]) for each in (folder / "killed/state").glob("step-*")), default=0)
        step = int(found["step"]) if found else 0
        torn += bool((engine.weight != step).any()) or step < steps
        memory += step > newest
        steps = step
    store.close()
    return {"kills": number, "torn": torn, "steps": steps, "newer_in_memory": memory}


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
