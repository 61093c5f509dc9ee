"""Ranks: the processes of a step that runs as several, started by torch's elastic agent.

The step's own process holds the lease, the records and the outputs. Each rank is `python -m steps.NAME` with
ARGOSY_RANKS naming a folder through which the two speak: `task.json` for all; `beat-N`, which rank N touches as long as
it lives; `end-N.json`, what it returned or how it failed. A rank writes its own log, and what the step shards."""

import logging
import os
import re
import shutil
import signal
import sys
import threading
import time
import traceback
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from argosy.core.config.schema import ParallelConfig
from argosy.core.errors import ArgosyError, InputError, StepError, Stopped
from argosy.core.step import process
from argosy.core.step.contract import Progress, Step, StepContext
from argosy.core.step.machine import usable_cores
from argosy.core.step.process import DIE_WITH_PARENT, THREADS, computed_with, failure, output_to
from argosy.core.store.files import read_json, read_record, temporary_of, use_reserve, write_json
from argosy.core.store.lease import Lease, LeaseLost, process_start, seconds_from
from argosy.core.store.step_files import PROGRESS, TRACKING, rank_log
from argosy.core.tracking.tracker import Tracker

RANKS = "ARGOSY_RANKS"
TIMEOUT = "ARGOSY_RANK_TIMEOUT"
_TASK = "task.json"
_START_S = 60  # more patience until a rank's first sign of life: its interpreter starts and imports
_SILENT_S = 2.5  # a rank that died without a word did so up to this long before it was noticed
_WAITED = re.compile(r"Timed out waiting \d+ms|collective operation timeout")  # gloo's words, NCCL's
_SIGNALS = "TORCHELASTIC_SIGNALS_TO_HANDLE"


class RankKilled(StepError):
    """The error of a rank that was killed from outside, as the kernel does where memory is short."""

    exit_code = 128 + signal.SIGKILL


def rank_timeout() -> float:
    """Return the seconds without a sign of life after which a rank counts as frozen (ARGOSY_RANK_TIMEOUT, 300)."""
    return seconds_from(TIMEOUT, 300)


def refuse_foreign_launcher() -> None:
    """Make sure that no other launcher started this process as one of several: each would want the step's directory.

    Raises InputError: torchrun or the like did."""
    world = os.environ.get("WORLD_SIZE", "1")
    if world not in ("", "1"):
        raise InputError(f"WORLD_SIZE is {world}: torchrun or the like started this process as one of several, and all "
                         "would write one directory; start it as one process, with processes in its config "
                         f"(--config '{{\"processes\": {world}}}'): it starts its ranks itself")


def run_ranks(step: Step[Any], config: ParallelConfig, out: Path, lease: str) -> dict[str, Any]:
    """Run `step` as `config.processes` ranks; returns `outputs` and `computed_with` of rank 0.

    `lease`: token of this process's lease on `out`. The ranks renew it too, since they may work on while this
    process is suspended, and stop when another has taken the directory over. Raises InputError, StepError: names the
    rank that failed first; Stopped: a signal arrived; the ranks have ended."""
    folder = temporary_of(out / "ranks")
    folder.mkdir()
    try:
        task = {"config": config.model_dump(mode="json"), "out": str(out), "lease": lease}
        write_json(folder / _TASK, task, durable=False)
        for rank in range(config.processes):
            _beat(folder, rank).touch()
        with _environment(folder, config.processes, getattr(config, "threads", 1)):
            failures, frozen = _run_agent(step.name, config.processes, folder)
        ends = {rank: read_record(_end(folder, rank)) for rank in range(config.processes)}
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    if failures or frozen or "outputs" not in ends[0]:
        raise _first_failure(ends, failures, frozen)
    return ends[0]


def _run_agent(name: str, world: int, folder: Path) -> tuple[dict[int, Any], dict[int, str]]:
    """Start the ranks and wait for them; returns torch's failures, and why the frozen ones were killed."""
    from torch.distributed.elastic.agent.server.api import WorkerSpec
    from torch.distributed.elastic.agent.server.local_elastic_agent import LocalElasticAgent
    from torch.distributed.elastic.multiprocessing import DefaultLogsSpecs, SignalException
    from torch.distributed.elastic.rendezvous import RendezvousParameters, registry

    for logger in [each for each in logging.root.manager.loggerDict if each.startswith("torch.distributed.elastic")]:
        logging.getLogger(logger).setLevel(logging.CRITICAL + 1)  # what it has to say is said in one line
    here = {"endpoint": "127.0.0.1:0", "local_addr": "127.0.0.1"}
    rendezvous = RendezvousParameters("c10d", run_id=folder.name, min_nodes=1, max_nodes=1, **here)
    spec = WorkerSpec(role="rank", local_world_size=world, entrypoint=sys.executable, args=("-m", f"steps.{name}"),
                      rdzv_handler=registry.get_rendezvous_handler(rendezvous), max_restarts=0, monitor_interval=0.1,
                      local_addr=here["local_addr"])
    patience = round(process.grace(0.8))  # between SIGTERM and SIGKILL of the ranks that are left
    agent = LocalElasticAgent(spec, DefaultLogsSpecs(str(folder / "elastic")), shutdown_timeout=patience)
    watch = _Watch(agent, folder, world)
    watch.start()
    try:
        return agent.run().failures, watch.frozen
    except SignalException as error:
        raise Stopped(f"stopped by {error.sigval.name}", 128 + error.sigval) from None
    finally:
        watch.done.set()


@contextmanager
def _environment(folder: Path, world: int, threads: int) -> Iterator[None]:
    """Set what the ranks inherit; the agent adds RANK, WORLD_SIZE and the like."""
    cores = max(1, int(os.environ.get(THREADS, world)) // world)
    crowded = {}
    if world * threads > usable_cores():  # they would spin on cores that the other ranks' threads need
        crowded = {"GOMP_SPINCOUNT": "0"}
        print(f"warning: {world} ranks of {threads} threads share {usable_cores()} cores and wait for each other: "
              "fewer threads or processes are faster", file=sys.stderr)
    # SIGTERM and SIGINT stay ours: they unwind the step, and the agent ends its ranks then.
    ours = {RANKS: str(folder), DIE_WITH_PARENT: str(os.getpid()), **process.thread_environment(cores), **crowded,
            _SIGNALS: "SIGQUIT"}
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
    """A watch over ranks: one that gives no sign of life is killed; the agent then ends the others.

    Attributes:
        frozen: rank -> what is said of it.
        done: set it to end the watch."""

    def __init__(self, agent: Any, folder: Path, world: int) -> None:
        super().__init__(name="ranks", daemon=True)
        self.frozen: dict[int, str] = {}
        self.done = threading.Event()
        self._agent, self._folder, self._world = agent, folder, world
        self._timeout = rank_timeout()
        self._processes: dict[int, tuple[int, str]] = {}
        self._first = [_beat(folder, rank).stat().st_mtime_ns for rank in range(world)]

    def run(self) -> None:
        beats: dict[int, tuple[int, float]] = {}
        pause, looked = min(1.0, self._timeout / 10), time.monotonic()
        while not self.done.wait(pause):
            now = time.monotonic()
            if now - looked > self._timeout / 2:
                beats.clear()  # this process was suspended itself, and perhaps the ranks with it
            looked = now
            if self._has_failed():
                return
            for rank in range(self._world):
                try:
                    beat = _beat(self._folder, rank).stat().st_mtime_ns
                except OSError:
                    continue  # a store that stalls
                if rank not in self._processes:
                    self._note_process(rank)
                patience = self._timeout if beat != self._first[rank] else self._timeout + _START_S
                if rank not in beats or beats[rank][0] != beat:
                    beats[rank] = beat, now
                elif now - beats[rank][1] > patience and not _end(self._folder, rank).exists() and self._kill(rank):
                    return

    def _has_failed(self) -> bool:
        """Tell whether a rank died before it was done: the agent then ends the others, which may be silent."""
        return any(process_start(pid) != started and read_record(_end(self._folder, rank)).get("exit_code", 1)
                   for rank, (pid, started) in self._processes.items())

    def _note_process(self, rank: int) -> None:
        """Note which process the rank is as soon as there is one: its id may be another's later."""
        for worker in self._agent.get_worker_group().workers:
            if worker.global_rank == rank and worker.id and rank not in self._processes:
                self._processes[rank] = int(worker.id), process_start(int(worker.id))

    def _kill(self, rank: int) -> bool:
        """Kill a rank that still lives; one that has died is the agent's to notice."""
        pid, started = self._processes.get(rank, (0, ""))
        if not started or process_start(pid) != started:
            return False
        self.frozen[rank] = f"rank {rank} gave no sign of life for {self._timeout:g} s ({TIMEOUT}) and was killed"
        os.kill(pid, signal.SIGKILL)
        return True


def _first_failure(
    ends: Mapping[int, Mapping[str, Any]], failures: Mapping[int, Any], frozen: Mapping[int, str]
) -> ArgosyError:
    """Pick the failure that came first: that of the others follows from it, since they wait for each other."""
    if frozen:
        return StepError(*frozen.values())
    found: list[tuple[float, int, ArgosyError]] = []
    for rank, end in ends.items():
        if end.get("exit_code"):
            kind = InputError if end["exit_code"] == InputError.exit_code else StepError
            message = f"rank {rank} failed: {end['message']}; its log is {rank_log(rank)}"
            found.append((float(end["time"]), rank, kind(message)))
        elif rank in failures and failures[rank].exitcode not in (-signal.SIGTERM, 128 + signal.SIGTERM):
            found.append((failures[rank].timestamp - _SILENT_S, rank, _silent_end(rank, failures[rank].exitcode)))
    if not found:
        return StepError(f"the ranks ended before they were done; their logs are {rank_log(0)}, ...")
    _, rank, error = min(found, key=lambda each: each[:2])
    late = [other for other, end in ends.items() if other != rank and not end]
    if late and _WAITED.search(str(error)):
        return StepError(f"rank {' or '.join(map(str, late))} did not arrive where rank {rank} waited ({error}): see "
                         f"{', '.join(map(rank_log, late))}")
    return error


def _silent_end(rank: int, code: int) -> ArgosyError:
    log = f"its log is {rank_log(rank)}"
    if code == -signal.SIGKILL:
        return RankKilled(f"rank {rank} was killed by SIGKILL (out of memory?); {log}")
    if code < 0:
        return StepError(f"rank {rank} was killed by {signal.Signals(-code).name}; {log}")
    return StepError(f"rank {rank} ended with exit code {code} before it was done; {log}")


def _beat(folder: Path, rank: int) -> Path:
    return folder / f"beat-{rank}"


def _end(folder: Path, rank: int) -> Path:
    return folder / f"end-{rank}.json"


def run_rank(step: Step[Any], folder: Path) -> int:
    """Run the step as the rank that the environment names; returns the exit code."""
    rank, world, local = (int(os.environ[name]) for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK"))
    task = read_json(folder / _TASK)
    out, parent = Path(task["out"]), os.getppid()
    with output_to(out / rank_log(rank)):
        lease = Lease(out, token=task["lease"])
        _renew(lease)
        process.when_resumed(lease.check)
        threading.Thread(target=_keep_beating, args=(_beat(folder, rank), lease, parent), daemon=True).start()
        print(f"{process.timestamp()} rank {rank} of {world}, process {os.getpid()}", flush=True)
        tracker = Tracker(out / TRACKING if rank == 0 else None)
        context = StepContext(out, tracker, Progress(out / PROGRESS if rank == 0 else None), rank, world, local)
        try:
            outputs = step.run(step.config.model_validate(task["config"]), context)
            torch = sys.modules.get("torch.distributed")
            if torch and torch.is_available() and torch.is_initialized():
                torch.destroy_process_group()
            end: dict[str, Any] = {"exit_code": 0, "outputs": outputs.model_dump(mode="json"),
                                   "computed_with": computed_with()}
        except Stopped as stopped:
            print(stopped, flush=True)
            return stopped.exit_code
        except Exception as error:
            traceback.print_exc()
            end = failure(error, out)
        finally:
            tracker.close()
        try:
            write_json(_end(folder, rank), end, durable=False)
        except (ArgosyError, OSError) as error:  # outputs that are no JSON, such as a NaN; a full disk
            end = failure(error, out)
            use_reserve(out)
            write_json(_end(folder, rank), end, durable=False)
    return int(end["exit_code"])


def _keep_beating(beat: Path, lease: Lease, parent: int) -> None:
    """Touch `beat` for as long as this process lives; end it where its parent is gone, or the step is another's."""
    while os.getppid() == parent:
        with suppress(OSError):  # a store that stalls
            os.utime(beat)
        _renew(lease)
        time.sleep(min(1.0, rank_timeout() / 10))
    os.kill(os.getpid(), signal.SIGKILL)


def _renew(lease: Lease) -> None:
    try:
        lease.renew()
    except LeaseLost as lost:
        print(lost, flush=True)
        os._exit(lost.exit_code)
    except (OSError, StepError):
        return  # a store that stalls
