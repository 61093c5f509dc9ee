"""States in shared memory, on their way to the store: training waits for neither.

A save lists what is to be written. A thread writes it into shared memory while the next step computes gradients, and
only the optimizer waits for that thread (Mohan et al. 2021, "CheckFreq"); another one then carries the state to the
store. A process that is started again on this machine goes on from memory where that is newer (as DLRover's flash
checkpoint does)."""

import os
import shutil
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from threading import Thread
from typing import Any
from uuid import uuid4

from torch.optim.optimizer import register_optimizer_step_pre_hook

from argosy.core.errors import StepError
from argosy.core.step.machine import free_memory
from argosy.model.train.parallelism import Group

PLACE = "ARGOSY_SHARED_MEMORY"
"""Folder of shared memory; "" for none: then training waits until a state is in the store."""
PREFIX, TOKEN, OF = "argosy-", "memory", "of"
SPARE = 1.5  # times the bytes of a state, which must be free: they count against a pod's memory
_PAUSE_S, _PATIENCE_S = 0.005, 600.0

Job = Callable[[], None]


class Memory:
    """The folder in shared memory of a step's directory of `states`, and the state that is on its way.

    It is that directory's alone: a step that is begun anew, without it, has none of the memory that was.

    Attributes:
        waited: seconds that training has waited for states.
        carried: seconds that the last one took to the store, while training went on."""

    def __init__(self, states: Path, group: Group) -> None:
        root = os.environ.get(PLACE, "/dev/shm")
        usable = bool(root) and os.access(root, os.W_OK)
        folder = group.agreed(_folder(states, Path(root)) if usable and group.rank == 0 else None)
        shared = all(group.gathered(folder is not None and folder.is_dir()))  # nodes have memory of their own
        self.folder: Path | None = folder if shared else None
        self.waited = self.carried = 0.0
        self._group, self._told = group, False
        self._copy: Thread | None = None
        self._carry: Thread | None = None
        self._error: BaseException | None = None

    def has_room(self, nbytes: int) -> bool:
        """Tell whether a state of `nbytes`, of all processes together, fits beside the one that is there; every process
        calls it. Says once why not."""
        if self.folder is None:
            return False
        free = min(shutil.disk_usage(self.folder.parent).free, free_memory())
        fits: bool = self._group.agreed(free > SPARE * nbytes)
        if not fits and not self._told and self._group.rank == 0:
            print(f"shared memory has {free / 1e9:.1f} GB free and a state takes {nbytes / 1e9:.1f}: training waits "
                  f"until each state is in the store (docker run --shm-size; {PLACE} names another folder)", flush=True)
        self._told = self._told or not fits
        return fits

    def leave(self) -> None:
        """Give shared memory up, with what is in it."""
        if self.folder is not None and self._group.rank == 0:
            shutil.rmtree(self.folder, ignore_errors=True)
        self.folder = None

    def start(self, temporary: Path, jobs: Sequence[Job], finish: Job) -> None:
        """Write into `temporary` by `jobs` from now on, and call `finish` in rank 0 once all processes have."""
        self._copy = Thread(target=self._guarded, args=(self._copied, temporary, jobs), daemon=True)
        self._copy.start()
        self._hook = register_optimizer_step_pre_hook(self._before_update)
        if self._group.rank == 0:
            self._carry = Thread(target=self._guarded, args=(self._carried, temporary, finish), daemon=True)
            self._carry.start()

    def flush(self) -> None:
        """Wait until nothing is on its way. Raises whatever stopped it."""
        self._before_update()
        if self._carry is not None:
            start = time.perf_counter()
            self._carry.join()
            self.waited += time.perf_counter() - start
            self._carry = None
        if self._error is not None:
            error, self._error = self._error, None
            raise error

    def close(self) -> None:
        """Wait for what is on its way, and free the memory."""
        self.flush()
        self.leave()

    def _before_update(self, *_: Any) -> None:
        """Wait until the tensors that an update changes are copied."""
        if self._copy is not None:
            start = time.perf_counter()
            self._copy.join()
            self.waited += time.perf_counter() - start
            self._copy = None
            self._hook.remove()

    def _guarded(self, work: Callable[..., None], *args: Any) -> None:
        try:
            work(*args)
        except BaseException as error:  # raised where the next save or the end waits
            self._error = self._error or error

    def _copied(self, temporary: Path, jobs: Sequence[Job]) -> None:
        for job in jobs:
            job()
        _mark(temporary, self._group.rank).touch()

    def _carried(self, temporary: Path, finish: Job) -> None:
        marks = [_mark(temporary, rank) for rank in range(self._group.world)]
        deadline = time.monotonic() + _PATIENCE_S
        while not all(mark.exists() for mark in marks):
            if self._error is not None:
                return
            if time.monotonic() > deadline:
                raise StepError(f"not every process has written its part of {temporary} within {_PATIENCE_S:.0f} s")
            time.sleep(_PAUSE_S)
        for mark in marks:
            mark.unlink()
        begun = time.perf_counter()
        finish()
        self.carried = time.perf_counter() - begun


def _folder(states: Path, root: Path) -> Path:
    """Return the folder of a directory of states, whose name is kept there. Those of earlier ones, and of directories
    that are gone, are removed."""
    token = states / TOKEN
    if not token.is_file():
        states.mkdir(parents=True, exist_ok=True)
        token.write_text(uuid4().hex)
    own = root / f"{PREFIX}{token.read_text()}"
    for folder in root.glob(f"{PREFIX}*"):
        if folder != own and (of := folder / OF).is_file() and not _is_of(folder, Path(of.read_text())):
            shutil.rmtree(folder, ignore_errors=True)
    own.mkdir(exist_ok=True)
    (own / OF).write_text(str(states.resolve()))
    return own


def _is_of(folder: Path, states: Path) -> bool:
    """Tell whether a directory of states names the folder as its own."""
    token = states / TOKEN
    return token.is_file() and folder.name == f"{PREFIX}{token.read_text()}"


def _mark(temporary: Path, rank: int) -> Path:
    return temporary.with_name(f"{temporary.name}.{rank}")
