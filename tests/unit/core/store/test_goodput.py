"""Goodput of a step that fails again and again, against a sum by hand."""

import json
import os
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from argosy.core.config.schema import Config
from argosy.core.errors import StepError, Stopped
from argosy.core.step import contract, runner
from argosy.core.step.contract import Step, StepContext
from argosy.core.step.ranks.diagnosis import RankFailed, RankKilled
from argosy.core.step.runner import Item, run_item
from argosy.core.store.goodput import attempts_of, goodput
from argosy.core.store.lease import LEASE, Holder
from argosy.core.store.step_files import PROGRESS, RUN
from argosy.core.tracking.spool import read
from steps.noop import STEP, NoopConfig

BEGAN, HOURS_2, FAIL_S, PAUSE_S = 1_000_000.0, 7200, 180, 7
START_S, STEP_S, SAVE_S, SAVE_EVERY, NOTICE_S, EXPORT_S = 20, 10, 2, 4, 3, 4
ENDS: list[tuple[str, Callable[[], BaseException]]] = [
    ("oom", lambda: RankKilled("rank 1 was killed by SIGKILL")),
    ("hang", lambda: RankFailed("rank 0 gave no sign of life for 60 s", {"cause": "frozen"})),
    ("preemption", lambda: Stopped("stopped by SIGTERM", 143)),
    ("error", lambda: StepError("the loss is not finite")),
    ("node", KeyboardInterrupt)]  # nothing is written any more


class Clock:
    """A clock that moves when it is told to."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = BEGAN
        fake = SimpleNamespace(time=lambda: self.now, monotonic=lambda: self.now)
        for module in (contract, runner):
            monkeypatch.setattr(module, "time", fake)


class TrainingConfig(Config):
    """Config of the training below."""


class Training:
    """Steps of 10 s with a state after every 4; at a chosen moment the process ends. Counts by hand what is lost."""

    def __init__(self, clock: Clock) -> None:
        self.clock, self.saved, self.done, self.paid = clock, 0, 0, 0.0
        self.by_hand: Counter[str] = Counter()
        self.ends_at, self.cause, self.ends_as = 0.0, "", ENDS[0][1]

    def __call__(self, config: TrainingConfig, context: StepContext) -> Config:
        self.spend(START_S, "startup")
        self.done, context.progress.stalled = self.saved, 0.0
        context.progress.update(self.done, 10_000, "steps")
        while self.clock.now < BEGAN + HOURS_2:
            if self.clock.now + STEP_S > self.ends_at:
                self.by_hand["repeated"] += STEP_S * (self.done - self.saved)
                # The last sign of life of one that dies without a word is that of its last step.
                self.spend(NOTICE_S, "waiting" if self.cause == "node" else self.cause)
                self.paid -= NOTICE_S * (self.cause == "node")
                raise self.ends_as()
            self.spend(STEP_S)
            self.done += 1
            if self.done % SAVE_EVERY == 0:
                self.spend(SAVE_S, "saving")
                self.saved, context.progress.stalled = self.done, context.progress.stalled + SAVE_S
            context.progress.update(self.done, 10_000, "steps")
        self.spend(EXPORT_S)
        return TrainingConfig()

    def spend(self, seconds: float, cause: str = "") -> None:
        self.clock.now += seconds
        self.paid += seconds
        if cause:
            self.by_hand[cause] += seconds


def test_two_hours_with_a_failure_every_three_minutes_add_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0,1")
    monkeypatch.setenv("ARGOSY_GPU_HOUR_PRICE", "3")
    clock = Clock(monkeypatch)
    training = Training(clock)
    step, code, number = Step("training", TrainingConfig, training, needs="train"), None, 0
    while code != 0:
        training.cause, training.ends_as = ENDS[number % len(ENDS)]
        training.ends_at = clock.now + FAIL_S
        with suppress(Stopped, KeyboardInterrupt):
            code = run_item(step, Item(TrainingConfig(), tmp_path)).code
        if code != 0:
            number += 1
            clock.now += PAUSE_S
            training.by_hand["waiting"] += PAUSE_S
    found = goodput(attempts_of(tmp_path))
    assert number == 38
    assert found.wall == clock.now - BEGAN
    assert dict(found.lost) == pytest.approx(dict(training.by_hand))
    assert found.productive == pytest.approx(STEP_S * training.done + EXPORT_S)
    assert sum(found.failures.values()) == number
    assert found.gpu_hours == pytest.approx(2 * training.paid / 3600)
    assert found.cost == pytest.approx(3 * found.gpu_hours)
    logged = {name: points[-1] for name, points in read(tmp_path).items()}
    assert logged["perf/goodput"] == (number + 1, pytest.approx(found.productive / found.wall))
    assert logged["time/lost_repeated_s"][1] == pytest.approx(training.by_hand["repeated"])
    assert logged["perf/cost"][1] == pytest.approx(found.cost)


def test_an_attempt_that_died_without_a_word_ended_with_its_last_heartbeat(tmp_path: Path) -> None:
    first = {"started": 100.0, "gpus": 0, "processes": 1}
    (tmp_path / RUN).write_text(json.dumps({"attempts": 1, "history": [first]}))
    (tmp_path / PROGRESS).write_text(json.dumps({"time": 150.0, "runs": [run_of(100, 110, 0, 150, 9)]}))
    (tmp_path / LEASE).write_text(json.dumps(asdict(replace(Holder.me(), pid=2**22 + 1))))
    os.utime(tmp_path / LEASE, (170, 170))
    assert run_item(STEP, Item(NoopConfig(size=4), tmp_path)).ran
    died, second = attempts_of(tmp_path)
    assert (died["ended"], died["cause"], died["runs"][0]["done"]) == (170, "node", 9)
    found = goodput([died, second])
    assert found.lost["node"] == 20
    assert found.lost["waiting"] == second["started"] - 170


def run_of(started: float, began: float, first: int, at: float, done: int, **more: float) -> dict[str, float]:
    return {"started": started, "began": began, "from": first, "at": at, "done": done, "undone": 0, "stalled": 0} | more


def test_processes_that_were_started_again_inside_an_attempt_are_runs_of_it() -> None:
    """A damaged state: the third process goes on from before the second one began."""
    runs = [run_of(0, 10, 0, 110, 100), {**run_of(115, 120, 90, 130, 100), "cause": "hang"},
            run_of(140, 145, 80, 165, 100)]
    found = goodput([{"started": 0, "ended": 166, "exit": 0, "cause": "", "runs": runs}])
    assert dict(found.lost) == {"startup": 20, "hang": 5, "error": 10, "repeated": 30}


def test_an_attempt_that_ended_before_its_first_step_repeats_nothing() -> None:
    trained = [{"started": 0, "ended": 110, "exit": 137, "cause": "oom", "runs": [run_of(0, 10, 0, 110, 100)]},
               {"started": 120, "ended": 125, "exit": 143, "cause": "preemption", "runs": []},
               {"started": 130, "ended": 165, "exit": 0, "cause": "", "runs": [run_of(130, 135, 70, 165, 100)]}]
    assert goodput(trained).lost["repeated"] == 30
