"""The ranks of one node, started by torch's elastic agent and watched until all have ended."""

import logging
import os
import shutil
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from argosy.core.errors import Stopped
from argosy.core.step import process, ranks
from argosy.core.step.machine import memory_kills, shown, usable_cores
from argosy.core.step.process import DIE_WITH_PARENT, THREADS
from argosy.core.step.ranks import RANKS, TASK, TIMEOUT, file_of, group_of
from argosy.core.step.ranks.diagnosis import GroupEnd, read_stack, read_state
from argosy.core.store.files import read_record, temporary_of, write_json
from argosy.core.store.lease import process_start
from argosy.core.store.step_files import rank_log

Stop = Literal["", "save", "stacks", "kill"]
_START_S = 60  # more patience until a rank's first sign of life: its interpreter starts and imports
_SIGNALS = "TORCHELASTIC_SIGNALS_TO_HANDLE"
_MEET_S = 60  # until the groups of a round have met; one may be lost on its way
_STACK_S = 5.0  # until every rank has written its stacks


@dataclass(frozen=True)
class Place:
    """The place of a node's ranks among those of a round."""

    node: int = 0  # from 0 to nodes - 1
    nodes: int = 1
    local: int = 1  # ranks of each node
    endpoint: str = ""  # host:port of node 0, of several
    address: str = "127.0.0.1"
    gpus: tuple[str, ...] = ()  # those of the node's ranks, where they are not to see all

    @property
    def ranks(self) -> range:
        return range(self.node * self.local, (self.node + 1) * self.local)


def run_group(step: str, place: Place, task: dict[str, Any], asked: Callable[[], Stop]) -> GroupEnd:
    """Run the ranks of a node to their end; `asked` tells whether they are to end earlier. Raises Stopped: a signal
    came; the ranks have ended."""
    out = Path(task["out"])
    folder = temporary_of(out / f"ranks-{place.node}")
    folder.mkdir(parents=True)
    try:
        write_json(folder / TASK, task, durable=False)
        return _run(step, place, folder, out, int(task["config"].get("threads", 1)), asked)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _run(step: str, place: Place, folder: Path, out: Path, threads: int, asked: Callable[[], Stop]) -> GroupEnd:
    for rank in place.ranks:
        file_of(folder, "beat", rank).touch()
    kills, before = memory_kills(), process.cpu_seconds()
    with environment(folder, place, threads):
        watch, failures = _run_agent(step, place, folder, out, asked)
    watch.end.ends = {rank: end for rank in place.ranks if (end := read_record(file_of(folder, "end", rank)))}
    peak = process.memory_mb()["peak"] + sum(end.get("peak_rss_mb", 0.0) for end in watch.end.ends.values())
    watch.end.used = {place.node: [peak, process.cpu_seconds() - before]}
    watch.end.exits = {rank: (each.exitcode, float(each.timestamp)) for rank, each in failures.items()}
    if memory_kills() > kills:
        watch.end.starved = {rank: True for rank, (code, _) in watch.end.exits.items() if code == -signal.SIGKILL}
    return watch.end


def _run_agent(step: str, place: Place, folder: Path, out: Path,
               asked: Callable[[], Stop]) -> tuple["_Watch", Mapping[int, Any]]:
    from torch.distributed.elastic.agent.server.api import WorkerSpec
    from torch.distributed.elastic.agent.server.local_elastic_agent import LocalElasticAgent
    from torch.distributed.elastic.multiprocessing import DefaultLogsSpecs, SignalException
    from torch.distributed.elastic.rendezvous import RendezvousParameters, registry

    for logger in [each for each in logging.root.manager.loggerDict if each.startswith("torch.distributed.elastic")]:
        logging.getLogger(logger).setLevel(logging.CRITICAL + 1)  # what it has to say is said in one line
    own: dict[str, Any] = {"local_addr": place.address}
    kind, more = ("static", {"rank": place.node, "timeout": _MEET_S}) if place.nodes > 1 else ("c10d", own)
    rendezvous = RendezvousParameters(kind, place.endpoint or f"{place.address}:0", run_id="ranks",
                                      min_nodes=place.nodes, max_nodes=place.nodes, **more)
    spec = WorkerSpec(role="rank", local_world_size=place.local, entrypoint=sys.executable,
                      args=("-m", f"steps.{step}"), rdzv_handler=registry.get_rendezvous_handler(rendezvous),
                      max_restarts=0, monitor_interval=0.1, local_addr=place.address)
    patience = round(process.grace(0.8))  # between SIGTERM and SIGKILL of the ranks that are left
    agent = LocalElasticAgent(spec, DefaultLogsSpecs(str(folder / "elastic")), shutdown_timeout=patience,
                              exit_barrier_timeout=60)
    watch = _Watch(agent, place, folder, out, asked)
    watch.start()
    try:
        return watch, agent.run().failures
    except SignalException as error:
        raise Stopped(f"stopped by {error.sigval.name}", 128 + error.sigval) from None
    except RuntimeError as error:  # DistStoreError, DistNetworkError
        watch.end.frozen[place.ranks[0]] = f"the ranks of node {place.node} did not start: {str(error).splitlines()[0]}"
        return watch, {}
    finally:
        watch.done.set()
        watch.join()


@contextmanager
def environment(folder: Path, place: Place, threads: int) -> Iterator[None]:
    """Set what the ranks inherit; the agent adds RANK, WORLD_SIZE and the like."""
    local = place.local
    cores = max(1, int(os.environ.get(THREADS, local)) // local)
    crowded = {}
    if local * threads > usable_cores():  # they would spin on cores that the other ranks' threads need
        crowded = {"GOMP_SPINCOUNT": "0"}
        print(f"warning: {local} ranks of {threads} threads share {usable_cores()} cores and wait for each other: "
              "fewer threads or processes are faster", file=sys.stderr)
    # SIGTERM and SIGINT stay ours: they unwind the step, and the agent ends its ranks then.
    ours = {RANKS: str(folder), DIE_WITH_PARENT: str(os.getpid()), **process.thread_environment(cores), **crowded,
            _SIGNALS: "SIGQUIT", **(shown(place.gpus) if place.gpus else {})}
    before, quit_handler = dict(os.environ), signal.getsignal(signal.SIGQUIT)
    os.environ.update(ours)
    try:
        yield
    finally:
        for name in ours:
            os.environ.pop(name, None)
        os.environ.update({name: before[name] for name in ours if name in before})
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGQUIT, quit_handler)


class _Watch(threading.Thread):
    """A watch over the ranks of a node: where one is frozen or hangs, they are killed, and it is noted why.

    Attributes:
        end: takes what is seen.
        done: set it to end the watch."""

    def __init__(self, agent: Any, place: Place, folder: Path, out: Path, asked: Callable[[], Stop]) -> None:
        super().__init__(name="ranks", daemon=True)
        self.end, self.done = GroupEnd(), threading.Event()
        self._agent, self._ranks, self._folder, self._out, self._asked = agent, place.ranks, folder, out, asked
        self._timeout, self._hang = ranks.rank_timeout(), ranks.hang_timeout()
        self._stopped: dict[int, float] = {}  # since when the kernel has had a rank stopped
        self._processes: dict[int, tuple[int, str]] = {}
        self._first = {rank: file_of(folder, "beat", rank).stat().st_mtime_ns for rank in self._ranks}
        self._beats: dict[int, tuple[int, float]] = {}

    def run(self) -> None:
        pause, looked, saving = min(1.0, self._timeout / 10), time.monotonic(), False
        while not self.done.wait(pause):
            now = time.monotonic()
            if now - looked > self._timeout / 2:
                self._beats.clear()  # this process was suspended itself, and perhaps the ranks with it
                self._stopped.clear()
            looked = now
            with suppress(OSError):
                group_of(self._folder).touch()
            self._note_processes()
            asked = self._asked()
            if asked in ("stacks", "kill") or self._is_late(now):
                if asked != "kill":
                    self._dump_stacks()
                self._signal(signal.SIGKILL)
                return
            if asked == "save" and not saving:
                saving = True
                self._signal(signal.SIGTERM)
            if self._failures():
                if not self.done.wait(process.grace(0.8)) and -1 in self._failures():  # torch's agent waits 30 s
                    self._signal(signal.SIGKILL)  # others wait for the dead one where no SIGTERM reaches them
                return
            if frozen := [rank for rank in self._ranks if self._is_frozen(rank, now)]:
                self.end.frozen[frozen[0]] = (f"rank {frozen[0]} gave no sign of life for {self._timeout:g} s "
                                              f"({TIMEOUT}) and was killed")
                os.kill(self._processes[frozen[0]][0], signal.SIGKILL)
                return

    def _failures(self) -> list[int]:
        """List the exit codes of ranks that ended before they were done, -1 of those that could not say so: the agent
        then ends the others, which may be silent."""
        ends = [read_record(file_of(self._folder, "end", rank)) for rank in self._processes if not self._lives(rank)]
        return [code for end in ends if (code := int(end.get("exit_code", -1)))]

    def _note_processes(self) -> None:
        """Note which process each rank is as soon as there is one: its id may be another's later."""
        for worker in self._agent.get_worker_group().workers:
            if worker.id and worker.global_rank in self._ranks and worker.global_rank not in self._processes:
                self._processes[worker.global_rank] = int(worker.id), process_start(int(worker.id))

    def _is_frozen(self, rank: int, now: float) -> bool:
        """Tell whether a rank that lives, and has not ended, gives no sign of it."""
        try:
            beat = file_of(self._folder, "beat", rank).stat().st_mtime_ns
        except OSError:
            return False  # a store that stalls
        patience = self._timeout if beat != self._first[rank] else self._timeout + _START_S
        if rank not in self._beats or self._beats[rank][0] != beat:
            self._beats[rank] = beat, now
            return False
        silent = now - self._beats[rank][1] > patience and not file_of(self._folder, "end", rank).exists()
        return silent and self._lives(rank)

    def _lives(self, rank: int) -> bool:
        pid, started = self._processes.get(rank, (0, ""))
        return bool(started) and process_start(pid) == started

    def _is_late(self, now: float) -> bool:
        """Tell whether a rank says that it hangs, or is stopped for so long that the others do soon."""
        self.end.late = {rank: text for rank in self._ranks if (text := _text(file_of(self._folder, "late", rank)))}
        for rank, (pid, _) in self._processes.items():
            since = self._stopped.setdefault(rank, now) if read_state(pid) == "T" else self._stopped.pop(rank, now)
            if now - since > self._hang:
                self.end.late[rank] = f"rank {rank} has been stopped for {self._hang:g} s"
        return bool(self.end.late)

    def _dump_stacks(self) -> None:
        """Have every rank write its stacks, also to its log."""
        living = [rank for rank in self._ranks if self._lives(rank)]
        for rank in living:
            os.kill(self._processes[rank][0], signal.SIGUSR2)
        deadline = time.monotonic() + _STACK_S
        while time.monotonic() < deadline and not all(_text(file_of(self._folder, "stack", rank)) for rank in living):
            time.sleep(0.1)
        time.sleep(0.2)  # the last lines
        for rank in living:
            text = _text(file_of(self._folder, "stack", rank))
            self.end.stacks[rank] = read_stack(self._processes[rank][0], text)
            with suppress(OSError), open(self._out / rank_log(rank), "a", encoding="utf-8") as log:
                log.write(f"{process.timestamp()} stacks, as a rank hangs:\n{text or 'none was given'}\n")

    def _signal(self, number: int) -> None:
        for rank in filter(self._lives, self._processes):
            os.kill(self._processes[rank][0], number)


def _text(path: Path) -> str:
    with suppress(OSError):
        return path.read_text(encoding="utf-8")
    return ""
