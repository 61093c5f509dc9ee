"""Resumable states of a step: directories `step-<n>` with the sizes of their files, which show damage. Going on from
the state of a different run, on other processes or by another engine, and from the optimizer of a phase before."""

import hashlib
import json
import re
import shutil
import time
from collections.abc import Mapping, Sequence
from functools import partial
from io import BytesIO
from itertools import chain
from pathlib import Path
from typing import Any, Protocol, cast

import numpy as np
import torch
import xxhash
from torch import Tensor

from argosy.core.config.explain import first_of
from argosy.core.errors import InputError
from argosy.core.store.files import publish, read_record, sync, temporary_of, write_json
from argosy.core.store.provenance import differences
from argosy.core.store.step_files import NODE, STATE
from argosy.model.train.config import ContinueConfig, TrainConfig
from argosy.model.train.config.engine import EngineConfig
from argosy.model.train.engines.base import Engine
from argosy.model.train.engines.parts import Parts, deferred
from argosy.model.train.memory import Memory
from argosy.model.train.parallelism import Group

LOOP = "loop.pt"
COMPLETE = "complete"  # {file: bytes, or bytes and checksum}; written last
PREFIX = "step-"
KEPT = 2  # the newest, and the one before: what goes on where the newest is damaged; beside those of `keep_every`
_FORM = re.compile(rf"[^/]+-[0-9a-f]+/{STATE}/step-\d+")
OPTIMIZER, ABOUT = "optimizer", "optimizer.json"  # of a phase that keeps it
COMPUTED = {*EngineConfig.model_fields, "threads", "micro_batch_size"}  # say how, not what


class Savable(Protocol):
    """An engine, or several that are saved together."""

    @property
    def group(self) -> Group: ...
    @property
    def holds_parts(self) -> bool: ...
    @property
    def settled(self) -> bool: ...
    def save(self, directory: Path) -> None: ...
    def load(self, directory: Path) -> None: ...


class StateStore:
    """States of a step in its directory `out`, each renamed into place when all of it is on the disk; on their way
    there they are in shared `memory`, where there is room."""

    def __init__(self, config: EngineConfig, out: Path, engine: Savable) -> None:
        self._config, self._out, self._directory = config, out, out / STATE
        self._engine, self._group = engine, engine.group
        self.memory = Memory(self._directory, self._group)

    def save(self, step: int, extra: dict[str, Any], *, kept: bool = True) -> None:
        """Keep the state after `step` steps, with the tensors and numbers of `extra`, and drop the older ones; in
        shared memory alone where it is not `kept`."""
        self.memory.flush()
        start = time.perf_counter()
        self._save(step, extra, kept)
        self.memory.waited += time.perf_counter() - start

    def _save(self, step: int, extra: dict[str, Any], kept: bool) -> None:
        buffer = BytesIO()
        torch.save({"step": step, "generators": self._group.gathered(_generators()), **extra}, buffer)
        name, loop = f"{PREFIX}{step:08d}", buffer.getvalue()
        if self.memory.folder is not None and self._engine.holds_parts:
            temporary = _prepare(self.memory.folder / name, self._group)
            with deferred() as jobs:
                self._engine.save(temporary)
            if self.memory.has_room(sum(self._group.gathered(sum(job.nbytes for job in jobs)))):
                self.memory.start(temporary, [job.run for job in jobs], partial(self._carry, temporary, loop, kept))
                return
            self.memory.leave()
        if kept:
            temporary = _prepare(self._directory / name, self._group)
            self._engine.save(temporary)
            self._group.barrier()
            shares = self._group.gathered(_checksums(temporary, self._group.rank, self._group.world))
            if self._group.rank == 0:
                self._publish(temporary, name, loop, {file: each for part in shares for file, each in part.items()})
            self._group.barrier()

    def _carry(self, temporary: Path, loop: bytes, kept: bool) -> None:
        """Complete a state in memory, and copy it into the store if it is to be kept there."""
        (temporary / LOOP).write_bytes(loop)
        sums = _checksums(temporary)  # before they travel
        _mark_complete(temporary, sums)
        name = temporary.name.removeprefix(".").partition(".")[0]
        target = temporary.with_name(name)
        temporary.rename(target)
        for old in _states(target.parent)[:-1]:
            _remove(old)
        if kept:
            copy = temporary_of(self._directory / name)
            shutil.copytree(target, copy, ignore=shutil.ignore_patterns(COMPLETE))
            self._publish(copy, name, loop, sums)

    def _publish(self, temporary: Path, name: str, loop: bytes, sums: Mapping[str, str]) -> None:
        (temporary / LOOP).write_bytes(loop)
        _mark_complete(temporary, {LOOP: _checksum(temporary / LOOP), **sums})
        publish(temporary, self._directory / name)
        for old in _outdated(_states(self._directory), self._config.keep_every):
            _remove(old)

    def close(self) -> None:
        """Wait for what is on its way to the store, and free the memory."""
        self.memory.close()

    def has(self, step: int) -> bool:
        """Tell whether the state after `step` steps is in the store."""
        self.memory.flush()
        return bool(self._group.agreed(not damage(self._directory / f"{PREFIX}{step:08d}")))

    def newest(self, step: int) -> int | None:
        """Return the steps of the newest whole state in the store that has at most `step`; None: there is none."""
        self.memory.flush()
        found = self._group.rank == 0 and _latest([path for path in _states(self._directory) if _step(path) <= step])
        return self._group.agreed(_step(found) if found else None)

    def forget(self, step: int) -> None:
        """Drop the states of more than `step` steps; every process calls this."""
        self.memory.flush()
        if self._group.rank == 0:
            for path in reversed(self._everywhere()):  # so that a kill leaves no newer one
                if _step(path) > step:
                    _remove(path)
        self._group.barrier()

    def load(self) -> dict[str, Any] | None:
        """Bring the engine to the newest whole state, else to the one that `config.resume` names; returns its `extra`
        and `step`, or None where there is none."""
        newest = self._group.agreed(_latest(self._everywhere()) if self._group.rank == 0 else None)
        newest = newest or _of_a_different_run(self._config, self._out)
        if newest is None:
            return None
        self._engine.load(newest)
        with torch.serialization.safe_globals([np.ndarray]):
            loop: dict[str, Any] = torch.load(newest / LOOP, weights_only=True)
        every = loop.pop("generators") if "generators" in loop else [{"cpu": loop.pop("rng")}]
        own = every[self._group.rank if self._group.world == len(every) else 0]
        torch.set_rng_state(own.pop("cpu"))
        for kind in own.keys() & _generators().keys():
            torch.get_device_module(kind).set_rng_state(own[kind])
        return loop

    def _everywhere(self) -> list[Path]:
        """List the states in the store and in memory, the oldest first; of equal ones that of memory is last."""
        there = [_states(folder) for folder in (self._directory, self.memory.folder) if folder]
        return sorted(chain.from_iterable(there), key=_step)


def _generators() -> dict[str, Tensor]:
    """Return the states of this process's generators by kind of device, whose own draws the masks of its dropout."""
    device = torch.accelerator.current_accelerator(check_available=True)
    own = {device.type: torch.get_device_module(device.type).get_rng_state()} if device else {}
    return {"cpu": torch.get_rng_state(), **own}


def _latest(states: Sequence[Path]) -> Path | None:
    """Return the newest whole state, or None. What a crash left half written or a disk has damaged is deleted, and its
    file named."""
    for path in reversed(states):
        problem = damage(path, read=True)
        if not problem:
            return path
        print(f"{problem}: continuing from the state before, or the beginning", flush=True)
        _remove(path)
    return None


def _mark_complete(path: Path, sums: Mapping[str, str]) -> None:
    """Declare the state in `path` complete, its bytes on the disk before the mark."""
    for name in sums:
        sync(path / name)
    sizes = {name: [(path / name).stat().st_size, checksum] for name, checksum in sorted(sums.items())}
    (path / COMPLETE).write_text(json.dumps(sizes))
    sync(path / COMPLETE)
    sync(path)


def _prepare(target: Path, group: Group) -> Path:
    """Make the directory that will be `target`; every process calls this."""
    temporary: Path = group.agreed(temporary_of(target))
    if group.rank == 0:
        shutil.rmtree(temporary, ignore_errors=True)
        temporary.mkdir(parents=True)
    group.barrier()
    return temporary


def _states(directory: Path) -> list[Path]:
    return sorted(directory.glob(f"{PREFIX}*"), key=_step)


def _outdated(states: Sequence[Path], every: int) -> list[Path]:
    """List the states, the oldest first, that are neither the first of each `every` steps (0: none is) nor, of the
    others, the newest."""
    first = {_step(path) // every: path for path in reversed(states) if every and _step(path) >= every}
    return [path for path in states if path not in first.values()][:-KEPT]


def _step(path: Path) -> int:
    return int(path.name.removeprefix(PREFIX))


def _remove(path: Path) -> None:
    """Remove a state; it loses its mark before its files."""
    (path / COMPLETE).unlink(missing_ok=True)
    shutil.rmtree(path)


def _checksum(file: Path) -> str:
    with open(file, "rb") as opened:
        return str(hashlib.file_digest(opened, cast(Any, xxhash.xxh3_64)).hexdigest())


def _checksums(state: Path, part: int = 0, parts: int = 1) -> dict[str, str]:
    """Return the checksums of a state's files, or of one of `parts` parts of them."""
    files = sorted(file for file in state.rglob("*") if file.is_file())[part::parts]
    return {file.relative_to(state).as_posix(): _checksum(file) for file in files}


def damage(path: Path, *, read: bool = False) -> str:
    """Say what a state lacks; "" where it is whole. `read`: compare checksums too, of files that have one."""
    sizes = read_record(path / COMPLETE)
    if not sizes:
        return f"{path} was not written to its end"
    for name, known in sizes.items():
        file, (size, checksum) = path / name, known if isinstance(known, list) else (known, "")
        if not file.is_file() or file.stat().st_size != size:
            found = f"{file.stat().st_size} bytes" if file.is_file() else "absent"
            return f"{file} is damaged ({found}, {size} were written)"
        if read and checksum and _checksum(file) != checksum:
            return f"{file} is damaged (it has not the bytes that were written)"
    return ""


def _of_a_different_run(config: EngineConfig, out: Path) -> Path | None:
    """Return the directory that `config.resume` names in the store of the step's directory `out`; None: it names none.

    Raises InputError: it is not there, is damaged, or its run trains something else."""
    if not config.resume:
        return None
    if not _FORM.fullmatch(config.resume):
        raise InputError(f"resume={config.resume} is no state; it is STAGE-DIGEST/{STATE}/step-N of the same store")
    path = out.parent / config.resume
    if problem := damage(path):
        raise InputError(f"resume={config.resume}: {problem}; a state is deleted when two newer ones are there (but "
                         "those of keep_every), or when its step is done")
    other, own = (_what(read_record(each / NODE)) for each in (path.parent.parent, out))
    if differing := differences(other, own):
        raise InputError(f"resume={config.resume} trains something else ({first_of(differing, 3)}): a state goes on "
                         "with the same data and training alone")
    return path


def _what(made_from: dict[str, Any]) -> dict[str, Any]:
    """Return the record without the fields that say how it is computed."""
    kept = {name: value for name, value in made_from.get("config", {}).items() if name not in COMPUTED}
    return {**made_from, "config": kept}


def keep_optimizer(config: TrainConfig, engine: Engine, out: Path) -> None:
    """Write what the optimizer ended with below the step's directory `out`, for the phase that carries it on: whole
    tensors by name, as in a state, without the weights. Every process calls it."""
    temporary = _prepare(out / OPTIMIZER, engine.group)
    engine.save(temporary, weights=False)
    engine.group.barrier()
    if engine.group.rank == 0:
        write_json(temporary / ABOUT, {**config.moments(), "step": config.steps})
        publish(temporary, out / OPTIMIZER)
    engine.group.barrier()


def carry_optimizer(config: ContinueConfig, engine: Engine) -> None:
    """Go on with the moments that the phase before kept, whatever engine and processes it had.

    Raises InputError: it kept none, or those of another optimizer."""
    kept = Path(config.checkpoint) / OPTIMIZER
    about = read_record(kept / ABOUT)
    if not about:
        raise InputError(f"carry_optimizer=true: {config.checkpoint} kept no optimizer; set keep_optimizer=true of "
                         "that phase, which then runs again, or carry_optimizer=false")
    for field, value in config.moments().items():
        if about[field] != value:
            raise InputError(f"carry_optimizer=true: {field}={value} cannot go on with what {about[field]} kept in "
                             f"{config.checkpoint}: set {field}={about[field]}, or carry_optimizer=false")
    engine.restore(Parts(kept), weights=False)
    print(f"the optimizer goes on from step {about['step']} of {config.checkpoint}", flush=True)
