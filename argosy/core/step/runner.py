"""One attempt at one step's directory: lease, records before and after, status, errors."""

import os
import shutil
import socket
import time
import traceback
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from functools import partial
from pathlib import Path
from typing import Any

from argosy.core.config.schema import Config, ParallelConfig, Role
from argosy.core.errors import ArgosyError, InputError, Stopped
from argosy.core.nodes.bad import OF_ONE_NODE, node_name, note_bad
from argosy.core.statistics.metric import as_records
from argosy.core.step import process
from argosy.core.step.contract import Progress, Step, StepContext
from argosy.core.step.machine import usable_gpus
from argosy.core.step.ranks.diagnosis import cause_of
from argosy.core.step.ranks.launcher import EXTERNAL
from argosy.core.step.ranks.rounds import run_ranks
from argosy.core.store import files, provenance
from argosy.core.store import goodput as history
from argosy.core.store import step_files as records
from argosy.core.store.lease import LEASE, Lease, LeaseLost, last_sign, live_holder
from argosy.core.tracking.tracker import Tracker

_HEADER_FROM_ENVIRONMENT = {"pipeline": "ARGOSY_PIPELINE", "line": "ARGOSY_LINE"}
_RECORDS = {records.NODE, records.RUN, records.ERROR, records.LOG, records.TRACKING, records.PROGRESS, LEASE,
            files.RESERVE}


@dataclass(frozen=True)
class Item:
    """A step's config, its directory, and what the graph knows of it (nothing for a step run by hand)."""

    config: Config
    out: Path
    node: Mapping[str, Any] = field(default_factory=dict)
    header: Mapping[str, str] = field(default_factory=dict)
    """Fields of the spool's header that no environment gives: line, title."""


def run_item(
    step: Step[Any], item: Item, *, wait: bool = True, repeat: bool = False, say: Callable[[str], None] = print
) -> process.Outcome:
    """Run `item` unless it is done; a failure is recorded in its directory and returned, not raised. One that is done
    but failed in part stays done with its results until a run that retries those parts has ended well.

    `repeat`: run it also where it is done and has no part to retry. Raises Stopped: a signal arrived; the directory
    is left so that a next start continues."""
    try:
        files.make_directory(item.out)
        before_reading, sign = provenance.stamps(item.config), last_sign(item.out)
        record = provenance.provenance_of(step.name, step.version, item.config, item.node)
        before = _stamp(item.out)
        if _is_done(item.out, record, repeat):
            return process.Outcome(0, "already done")
        why = f"{item.out} was taken over by another process; this one writes nothing more"
        lease = Lease(item.out, on_lost=lambda: process.interrupt(LeaseLost(why, exit_code=1)))
        finished = partial(_done_since, item.out, before, repeat)
        taken = lease.try_acquire() is None if not wait else lease.acquire(finished, lambda holder: say(
            f"{item.out} is being written by process {holder.pid} on {holder.host}: waiting for it"))
        if not taken:
            return _DONE_BY_OTHER if finished() else process.Outcome(None, "another process is running it")
    except (ArgosyError, OSError) as error:
        known = error if isinstance(error, ArgosyError) else files.explain(error, item.out)
        if known is None:
            raise
        return process.Outcome(known.exit_code, str(known))
    process.when_resumed(lease.check)
    try:
        return _DONE_BY_OTHER if finished() else _Attempt(step, item, record, lease, before_reading, sign).run()
    finally:
        lease.release()


_DONE_BY_OTHER = process.Outcome(0, "done by another process")


def _stamp(out: Path) -> tuple[int, int]:
    """Return what tells one `outputs.json` from the next; zeros where there is none."""
    try:
        found = (out / records.OUTPUTS).stat()
    except FileNotFoundError:
        return 0, 0
    return found.st_mtime_ns, found.st_ino


def _done_since(out: Path, before: tuple[int, int], repeat: bool) -> bool:
    """Tell whether it is done and has no part to retry, or another process has just ended it."""
    done = records.read_whole(out)
    return done is not None and (not (repeat or records.parts_to_retry(done)) or _stamp(out) != before)


def _is_done(out: Path, record: Mapping[str, Any], repeat: bool) -> bool:
    """Tell whether there is nothing to run. Raises InputError: `out` belongs to another config, and results of
    different configs never mix; unless its attempts ended before they made anything, as where the config was wrong."""
    done = records.read_whole(out)
    known = done["made_from"] if done else files.read_record(out / records.NODE)
    if known and known.get("digest") != record["digest"] and not _is_empty(out):
        changes = "; ".join(provenance.differences(known, record)) or f"node {known.get('node')} {known.get('part')}"
        raise InputError(f"{out} holds another config's work ({changes}); choose another --out or remove it")
    return done is not None and not repeat and not records.parts_to_retry(done)


def _is_empty(out: Path) -> bool:
    """Tell whether `out` holds only records of attempts that have ended."""
    names = [path.name for path in out.iterdir()]
    return all(name in _RECORDS or fnmatchcase(name, records.RANK_LOGS) for name in names) and live_holder(out) is None


class _Attempt:
    """One run of a step in a directory whose lease is held."""

    def __init__(self, step: Step[Any], item: Item, record: dict[str, Any], lease: Lease, inputs: provenance.Stamps,
                 sign: float) -> None:
        self._step, self._item, self._record, self._lease, self._inputs = step, item, record, lease, inputs
        self._out, self._sign = item.out, sign
        if files.read_record(self._out / records.NODE).get("digest", record["digest"]) != record["digest"]:
            shutil.rmtree(self._out / records.TRACKING, ignore_errors=True)  # of another config, which made nothing
            (self._out / records.RUN).unlink(missing_ok=True)
        self._tracker = Tracker(self._out / records.TRACKING)
        self._started, self._cpu_s = time.time(), process.cpu_seconds()
        self._before, self._stamp = records.read_whole(self._out), _stamp(self._out)  # it stays until it is replaced
        self._run = files.read_record(self._out / records.RUN)
        self._computed_with: Mapping[str, str] = {}
        self._used: tuple[float, float] | None = None  # by the processes of its largest node, where it has several

    def run(self) -> process.Outcome:
        try:
            self._begin()
            if records.STORE_URI not in os.environ:  # a pod that fetches from a bucket has a part of each directory
                known = self._out.parent / provenance.IDENTITIES
                provenance.check_inputs(self._item.config, self._step.name, self._item.node, known)
            outputs = self._outputs()
            self._check_unchanged()
            with self._lease.held():
                retry = records.retry_after_success(self._run, self._item.config, outputs)
                self._end(0, retry)
                self._tracker.status("FINISHED")
                self._tracker.close()  # what it logged is on the disk before anything says done
                (self._out / records.ERROR).unlink(missing_ok=True)
                made = retry.record(outputs, self._record, records.result_files(self._out))
                files.write_json(self._out / records.OUTPUTS, made)
            # Not before: a step that ends between its last work and `outputs.json` goes on from its state, and so does
            # one that retries its failed parts.
            self._forget_state(retry)
            return process.Outcome(0, "done", ran=True)
        except LeaseLost:
            raise  # the directory and its records are another's now
        except Stopped as stopped:
            if records.read_whole(self._out) is not None and _stamp(self._out) != self._stamp:
                return process.Outcome(0, "done", ran=True)  # the signal came after the last byte
            with self._lease.held():
                self._end(stopped.exit_code)
                self._tracker.status("FINISHED" if self._before else "KILLED")
            raise
        except Exception as error:
            with self._lease.held():
                return self._failed(error)
        finally:
            self._tracker.close()

    def _forget_state(self, retry: records.Retry) -> None:
        if not retry.own:
            shutil.rmtree(self._out / records.STATE, ignore_errors=True)

    def _outputs(self) -> dict[str, Any]:
        config = self._item.config
        if not isinstance(config, ParallelConfig) or config.processes == 1:
            if isinstance(config, ParallelConfig):
                process.show_one_gpu()
            progress = Progress(self._out / records.PROGRESS, self._check_unchanged)
            context = StepContext(self._out, self._tracker, progress)
            return self._step.run(config, context).model_dump(mode="json")
        self._tracker.close()  # rank 0 writes it meanwhile
        try:
            end = run_ranks(self._step, config, self._out, self._lease.token, self._note_restart)
        finally:
            self._tracker = Tracker(self._out / records.TRACKING)
        self._computed_with, self._used = end["computed_with"], end["used"]
        outputs: dict[str, Any] = end["outputs"]
        return outputs

    def _note_restart(self, why: str, about: dict[str, Any]) -> None:
        """Record that the ranks start again within this attempt."""
        self._log(f"{process.timestamp()} {why}")
        run = files.read_record(self._out / records.RUN)
        run["restarts"] = [*run.get("restarts", []), {"time": time.time(), "why": why, **about}]
        files.write_json(self._out / records.RUN, run, durable=False)

    def _check_unchanged(self) -> None:
        if provenance.stamps(self._item.config) != self._inputs:
            raise provenance.changed_inputs(self._step.name, self._item.config.fields_with(Role.EXTERNAL))

    def _begin(self) -> None:
        files.remove_temporaries(self._out)
        process.reset_peak_rss()
        earlier = history.attempts_of(self._out, sign=min(self._sign, self._started))
        (self._out / records.PROGRESS).unlink(missing_ok=True)
        files.reserve(self._out)
        files.write_json(self._out / records.NODE, self._record, durable=False)
        run = files.read_record(self._out / records.RUN)
        run |= {"attempts": run.get("attempts", 0) + 1, "started": self._started, "host": socket.gethostname(),
                "pid": os.getpid(), "exit": None, "config": self._item.config.model_dump(mode="json"),
               history.HISTORY: [*earlier, self._asked()]}
        files.write_json(self._out / records.RUN, run, durable=False)
        self._log(f"{process.timestamp()} attempt {run['attempts']} of {self._out.name} on {run['host']}, process "
                  f"{run['pid']}")
        given = {key: os.environ.get(name, "") for key, name in _HEADER_FROM_ENVIRONMENT.items()}
        header = {**given, **self._item.header}
        identity = {key: str(self._record[key]) for key in ("node", "part", "step", "digest")}
        kinds = {"kinds": as_records(self._step.metrics)} if self._step.metrics else {}
        self._tracker.header(**identity, **{key: value for key, value in header.items() if value}, **kinds)
        fields = provenance.flat(self._record["config"])
        self._tracker.params({key: value for key, value in fields if value not in (None, "", {})})
        self._tracker.tags({f"argosy.{key}": value for key, value in history.who().items()})
        self._tracker.status("RUNNING")

    def _asked(self) -> dict[str, Any]:
        """Return what this attempt begins with: the devices and memory it was given, their price, whom it is for."""
        given = {key: os.environ.get(name) for key, name in (("memory_gb", history.MEMORY), ("price", history.PRICE))}
        here = int(os.environ.get(EXTERNAL, len(usable_gpus()))) if self._step.needs == "train" else 0
        processes, nodes = (getattr(self._item.config, name, 1) for name in ("processes", "nodes"))
        return {"started": self._started, "gpus": here and max(here, processes),  # those of all nodes
                "nodes": nodes, **{key: float(value) for key, value in given.items() if value}, **history.who()}

    def _end(self, code: int, retry: records.Retry | None = None, cause: str | None = None) -> None:
        """Write how it ended, if that is possible: a full disk must not hide what went wrong."""
        files.use_reserve(self._out)
        ended = time.time()
        peak, cpu_s = self._used or (process.peak_rss_mb(), process.cpu_seconds() - self._cpu_s)
        run = files.read_record(self._out / records.RUN) | {"ended": ended, "seconds": round(ended - self._started, 3),
                                              "exit": code, "peak_rss_mb": round(peak, 1),
                                              "computed_with": self._computed_with or process.computed_with()}
        run |= {records.TRIED: retry.runs} if retry and retry.runs else {}
        if attempts := run.get(history.HISTORY):
            attempts[-1] = history.closed(attempts[-1], ended, code, files.read_record(self._out / records.PROGRESS),
                                          cause=cause, peak_rss_mb=round(peak, 1),
                                          cores=round(cpu_s / max(ended - self._started, 1e-3), 2))
            self._tracker.metrics(history.goodput(attempts).metrics(), step=len(attempts))
        with suppress(OSError):
            files.write_json(self._out / records.RUN, run, durable=False)

    def _failed(self, error: Exception) -> process.Outcome:
        """Record the error. Results of an earlier run stay: the step is done with them, and says why a retry failed."""
        before = self._before
        record = process.failure(error, self._out)
        files.use_reserve(self._out)
        code, message = int(record["exit_code"]), str(record["message"])
        if not isinstance(error, ArgosyError):
            if (cause := cause_of(message)) and cause.cause in OF_ONE_NODE:
                record |= {"rank": 0, "cause": cause.cause, "advice": cause.advice}
                note_bad(self._out, message, record, [node_name()])
            self._log("".join(traceback.format_exception(error)))
        retry = records.retry_after_failure(self._run, before) if before else None
        self._end(code, retry, record.get("cause"))
        self._tracker.status("FINISHED" if before else "FAILED")
        try:
            if before and retry:
                kept = retry.record(before["outputs"], before["made_from"], before.get("files"))
                files.write_json(self._out / records.OUTPUTS, kept)
                self._forget_state(retry)
            files.write_json(self._out / records.ERROR, record, durable=False)
        except OSError:
            self._log(message)
        if before:
            message = f"{records.RETRY_FAILED}: {message}"
            self._log(message)
            return process.Outcome(0, message, ran=True)
        return process.Outcome(code, message, ran=True)

    def _log(self, text: str) -> None:
        with suppress(OSError), open(self._out / records.LOG, "a", encoding="utf-8") as log:
            log.write(text.rstrip("\n") + "\n")
