"""Attempts at a step, and its goodput: the share of the wall time that moved it forward, and what took the rest.

`run.json` keeps the attempts. What each did is in `runs`, one for each process that trained, which progress.json has
while it lives: `started`, `began` (its first step), `at` (the end of its last one), the units `from` which it resumed
and that it had `done`, those `undone` by going back, and the seconds `stalled` by saving; `cause` says why the process
before it ended, where an attempt starts processes again."""

import os
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

from argosy.core.store.files import read_record, write_json
from argosy.core.store.lease import live_holder
from argosy.core.store.step_files import PROGRESS, RUN

HISTORY = "history"  # key of run.json: the attempts, the oldest first
PRICE, MEMORY = "ARGOSY_GPU_HOUR_PRICE", "ARGOSY_MEMORY_GB"  # what the runner asked for, and what a GPU costs an hour
WHO = {"person": "ARGOSY_PERSON", "workflow": "ARGOSY_WORKFLOW", "namespace": "ARGOSY_NAMESPACE"}  # that it is for
STARTUP, REPEATED, SAVING, WAITING, OOM = "startup", "repeated", "saving", "waiting", "oom"
WORDS = {STARTUP: "start-up", REPEATED: "work done again", SAVING: "saving", WAITING: "waiting between attempts",
         OOM: "out of memory", "hang": "hang", "node": "lost node or GPU", "preemption": "preemption",
         "stopped": "stopped", "killed": "killed", "error": "error"}
_OF = {"frozen": "hang", "membership": "node", "ECC": "node", "Xid": "node",
       "memory of the machine": OOM, "memory of the device": OOM}
_CODES = {0: "", 130: "stopped", 137: OOM, 143: "preemption"}
Attempt = dict[str, Any]


class Goodput(NamedTuple):
    """Seconds of wall time, and of them those lost by cause; number of failures by cause.

    trains: whether it took training steps; of other steps all time counts as spent well but for failures."""

    wall: float
    lost: Mapping[str, float]
    failures: Mapping[str, int]
    gpu_hours: float
    cost: float | None
    trains: bool

    @property
    def productive(self) -> float:
        return self.wall - sum(self.lost.values())

    @property
    def share(self) -> float:
        return self.productive / self.wall if self.wall > 0 else 1.0

    def metrics(self) -> dict[str, float]:
        """Return the metrics of the step's run."""
        found = {f"time/lost_{cause}_s": seconds for cause, seconds in self.lost.items()} if self.trains else {}
        found |= {"perf/goodput": self.share} if self.trains else {}
        found |= {"perf/gpu_hours": self.gpu_hours} if self.gpu_hours else {}
        return found | ({"perf/cost": self.cost} if self.cost else {})


def who() -> dict[str, str]:
    """Return whom this process works for: the person, the workflow and the namespace, as far as they are known."""
    return {key: os.environ[name] for key, name in WHO.items() if os.environ.get(name)}


def goodput(attempts: Sequence[Attempt]) -> Goodput:
    """Divide the wall time from the first attempt's start to the last one's end, exactly.

    Start-up lasts until a process's first step; what it did beyond the state that a later one resumed from is done
    again; what comes after the last step of one that failed is lost to the failure."""
    lost = dict.fromkeys(["", *WORDS], 0.0)
    lost[WAITING] = sum(later["started"] - before["ended"] for before, later in pairwise(attempts))
    failures: Counter[str] = Counter()
    resumed = float("inf")
    for ended, cause, run in reversed([*_runs(attempts)]):
        failures[cause] += 1
        lost[STARTUP] += run["began"] - run["started"]
        lost[SAVING] += run["stalled"]
        lost[cause] += ended - run["at"]
        steps = run["done"] - run["from"] + run["undone"]
        again = run["undone"] + max(0, run["done"] - max(run["from"], resumed))
        lost[REPEATED] += (run["at"] - run["began"] - run["stalled"]) * again / steps if steps else 0.0
        resumed = min(resumed, run["from"] if run["done"] else resumed)  # of one that trained
    hours = [(each["ended"] - each["started"]) * each.get("gpus", 0) / 3600 for each in attempts]
    prices = [each.get("price") for each in attempts]
    priced = any(prices) and sum(hours) > 0
    cost = sum(hour * (price or 0.0) for hour, price in zip(hours, prices, strict=True)) if priced else None
    return Goodput(attempts[-1]["ended"] - attempts[0]["started"] if attempts else 0.0,
                   {cause: seconds for cause, seconds in lost.items() if cause and seconds},
                   {cause: count for cause, count in failures.items() if cause}, sum(hours), cost,
                   any(each.get("runs") for each in attempts))


def category(cause: str) -> str:
    """Return the name under which time that a failure took is counted, by the cause that a diagnosis gave."""
    return cause if cause in WORDS else _OF.get(cause, "error")


def _runs(attempts: Sequence[Attempt]) -> Iterator[tuple[float, str, Mapping[str, float]]]:
    """Yield each process's end, the cause of it ("": none) and what it did; the time of an attempt is all its runs'."""
    for attempt in attempts:
        started, ended = attempt["started"], attempt["ended"]
        none = {"began": started if attempt["exit"] == 0 else ended, "at": ended, "from": 0, "done": 0, "undone": 0,
                "stalled": 0.0}
        runs = attempt.get("runs") or [none]
        ends = [(run["started"], category(run.get("cause", "error"))) for run in runs[1:]] + [(ended, attempt["cause"])]
        for (end, cause), run in zip(ends, runs, strict=True):
            yield end, cause, {**run, "started": started}
            started = end


def attempts_of(directory: Path | str, *, alive: bool = False, sign: float = 0.0) -> list[Attempt]:
    """List the attempts at a step. One that died without a word ended at its last sign of life, such as that of its
    lease (`sign`); one whose process lives (`alive`: look) has not ended but now."""
    run, progress = read_record(Path(directory, RUN)), read_record(Path(directory, PROGRESS))
    found: list[Attempt] = [*run.get(HISTORY, [])]
    if found and "ended" not in found[-1]:
        last, now = found.pop(), time.time() if alive and live_holder(directory) else None
        ended = max(last["started"], progress.get("time", 0.0), sign) if now is None else now
        found.append(closed(last, ended, None, progress, cause=None if now is None else ""))
    return found


def closed(attempt: Attempt, ended: float, code: int | None, progress: Mapping[str, Any], **more: Any) -> Attempt:
    """Return an attempt that has ended with `code` (None: without a word, such as by the loss of its machine)."""
    told = more.pop("cause", None)
    cause = category(told) if told else "node" if code is None else _CODES.get(code, "error")
    cause = "" if told == "" else cause
    return {**attempt, "ended": ended, "seconds": round(ended - attempt["started"], 3), "exit": code, "cause": cause,
            "runs": progress.get("runs", []), **{key: value for key, value in more.items() if value is not None}}


def note_end(directory: Path | str, ended: float, code: int) -> None:
    """Record how an attempt ended that had no time to say so itself, as its runner saw it."""
    run = read_record(Path(directory, RUN))
    if run.get(HISTORY) and "ended" not in (last := run[HISTORY][-1]):
        run[HISTORY][-1] = closed(last, ended, code, read_record(Path(directory, PROGRESS)))
        write_json(Path(directory, RUN), run, durable=False)
