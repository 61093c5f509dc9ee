"""One loop under pretraining, SFT, preferences and RL: optimizer steps from the newest state to the end, with logs,
held-out losses, states and exports."""

import math
import time
from collections.abc import Mapping
from contextlib import nullcontext
from typing import Any

import torch

from argosy.core.errors import StepError, Stopped
from argosy.core.step.contract import StepContext
from argosy.core.step.process import ends_by_itself
from argosy.model.train.config import TrainConfig
from argosy.model.train.config.watch import GOES_BACK
from argosy.model.train.decisions import Decisions
from argosy.model.train.monitoring import Events, Trace
from argosy.model.train.parallelism import Group
from argosy.model.train.state import Savable, StateStore
from argosy.model.train.updates import Updates, check_finite
from argosy.model.train.watch import Reading, Trouble, Watch

MONTH_S = 30 * 86_400.0
FIRST = 10  # steps of a process before its first state, which tells what saving costs
LEAST_S, MOST_S = 30.0, 1800.0  # between two states
CHEAP = 1e-3  # share of the time that saving may take however rare failures are: a person ends a process too
BUSY = 0.1  # and the share of the time that the store is written for it


def best_interval(save_s: float, between_s: float) -> float:
    """Return the seconds of training between two states that lose the least to saving, `save_s` each, and to failures,
    one in `between_s`: sqrt(2 save_s between_s) (Young 1974) with Daly's higher orders (2006, equation 37)."""
    if save_s >= 2 * between_s:
        return between_s
    ratio = save_s / (2 * between_s)
    return math.sqrt(2 * save_s * between_s) * (1 + math.sqrt(ratio) / 3 + ratio / 9) - save_s


class Due:
    """The steps after which a state is due: each `save_every`, or as often as failures and the cost of saving say, and
    each `keep_every`.

    Attributes:
        every: steps between two states; 0: not known yet.
        saves: states of this process, those in memory alone too."""

    def __init__(self, config: TrainConfig, group: Group) -> None:
        self.saves, self.every = 0, 0 if config.save_every == "auto" else config.save_every
        devices = config.nodes if group.device.type == "cpu" else group.world
        self._config, self._group, self._least = config, group, config.watch.before + 1
        self._between = MONTH_S / (config.failure_rate * devices)

    def begin(self, step: int) -> None:
        """Count from here: `step` steps are done."""
        self._begun, self._since = step, time.monotonic()
        self._last, self._next, self._seen = 0, step + max(FIRST, self._least), step

    def at(self, step: int) -> bool:
        """Tell whether a state is due after this step; asked of each step after which one can be written."""
        auto = self._config.save_every == "auto"
        intervals = [every for every in (self._config.save_every, self._config.keep_every) if every and every != "auto"]
        before, self._seen = min(self._seen, step - 1), step  # an earlier step, where training went back
        due = (auto and step >= self._next) or any(step // every > before // every for every in intervals)
        self._last = step if due else self._last
        return due

    def follow(self, step: int, stalled: float, carried: float) -> bool:
        """Set the interval by what states have cost, `stalled` seconds in all, in the step after one: training has
        waited for all of it by then. `carried`: seconds that the store was written for the last one, beside training.
        Every process calls this; tells whether the interval is a new one."""
        if self._config.save_every != "auto" or not self._last or step != self._last + 1:
            return False
        save_s, step_s = stalled / self.saves, (time.monotonic() - self._since - stalled) / (step - self._begun)
        rarely = max(save_s / CHEAP, carried / BUSY)
        seconds = max(LEAST_S, min(best_interval(save_s, self._between), rarely, MOST_S))
        before, self.every = self.every, self._group.agreed(max(self._least, round(seconds / step_s)))
        self._next = self._last + self.every
        if self._group.rank == 0 and self.every != before:
            print(f"a state each {self.every} steps ({seconds:.0f} s), as one takes {save_s:.3f} s of training, a step "
                  f"{step_s:.3f} s, and a failure is expected each {self._between / 3600:,.1f} h", flush=True)
        return self.every != before


class Loop:
    """The optimizer steps of a phase, of any kind of update.

    Args:
        engine: what is saved beside the state of the updates.
        steps: number of updates, where one is several steps of the phase; 0: the phase's."""

    def __init__(self, config: TrainConfig, context: StepContext, engine: Savable, updates: Updates,
                 steps: int = 0) -> None:
        self.config, self.context, self.updates, self.steps = config, context, updates, steps or config.steps
        self._states, self._engine = StateStore(config, context.out, engine), engine
        self._trace, self._events = Trace(config.profile, context), Events(config.tensorboard, context)
        self._watch, self._decisions = Watch(config.watch, updates.guess), Decisions(config.watch, context)
        self._group, self._note, self._due = engine.group, "", Due(config, engine.group)
        self._told = -1  # last step whose metrics were logged, before the phase went back

    def run(self) -> None:
        """Train to the end. Raises StepError: a measured number is not finite, or trouble ends the phase; Stopped:
        SIGTERM came, and the state after the last step is saved."""
        try:
            self._run(self._resume())
        finally:
            self._states.close()

    def _run(self, step: int) -> None:
        self._tell(step, force=True)
        with ends_by_itself() as stopped:
            while step < self.steps:
                step, apart = self._step(step + 1)
                with self.context.progress.watched("the end of a step" if apart else ""):
                    asked = torch.tensor([float(stopped() is not None)], device=self._group.device)
                    ends = bool(self._group.sum(asked))  # in any process
                if ends and self._engine.settled:
                    if not self._states.has(step):
                        self._save(step)
                    raise stopped() or Stopped()

    def _step(self, step: int) -> tuple[int, bool]:
        """Take step `step` (1, 2, ...); returns the steps done, and whether processes may come minutes apart from it.
        """
        with self._trace.step(step):
            turn = self._decisions.turn(step)
            with self.context.progress.watched():
                self.updates.take(turn)
                readings = self.updates.readings()
            trouble = self._watch.see(step, readings, turn.lowered)
            back = self._treat(step, trouble, readings) if trouble else None
            if back is None and (step % self.config.log_every == 0 or step == self.steps):
                with self.context.progress.watched():
                    self._note = self._log(step)
            self.updates.end()
        if back is not None:
            return back, True
        self._tell(step, self._note)
        return step, self._after(step)

    def _tell(self, step: int, note: str = "", *, force: bool = False) -> None:
        size = self.updates.size
        self.context.progress.stalled, self.context.progress.save_every = self._states.memory.waited, self._due.every
        self.context.progress.update(step * size, self.steps * size, self.updates.unit, note, force=force)

    def _resume(self) -> int:
        """Continue from the newest state, or evaluate the model before training; returns the steps done."""
        saved = self._states.load()
        step = int(saved["step"]) if saved else 0
        if saved is None:
            self._metrics(self.updates.evaluate(0), 0)
        else:
            self._restore(saved)
            print(f"continuing after step {step}", flush=True)
        # of one process: other nodes may still see an older file, and ranks that differ would learn from other batches
        self._decisions.made = self._group.agreed(self._decisions.made)
        self._decisions.restore(saved["watch"]["decisions"] if saved and "watch" in saved else [], step)
        self._due.begin(step)
        return step

    def _restore(self, saved: dict[str, Any]) -> None:
        self.updates.restore(saved)
        self._watch.restore(saved.get("watch", {}).get("series", {}))

    def _save(self, step: int, *, kept: bool = True) -> None:
        watch = {"series": self._watch.state(), "decisions": self._decisions.made}
        if self.config.check_every:  # what a state has is what ranks that start again go on with
            self.updates.check(step, computes=False)
        self._due.saves += 1
        with self.context.progress.watched("saving") if kept else nullcontext():
            self._states.save(step, {**self.updates.state(), "watch": watch}, kept=kept)

    def _treat(self, step: int, trouble: Trouble, readings: Mapping[str, Reading]) -> int | None:
        """Act on trouble in step `step`; returns the steps done of the state that it goes back to, or None.

        Raises StepError: the phase ends, or there is no such state."""
        action = self._decisions.action(trouble)
        batches = [self._decisions.turn(each).batch for each in range(trouble.since, step + 1)]
        back = None
        if action in GOES_BACK:
            last = trouble.since - 1
            back = self._states.newest(last - self._decisions.margin(action)) or self._states.newest(last)
        decision = self._decisions.decide(step, trouble, action, back, readings)
        if back is not None:
            self._states.forget(back)
            self._restore(self._states.load() or {})
            self._decisions.rewind(back)
            self._told = max(self._told, step - 1)
            for name, at in self.config.export_steps().items():
                if max(trouble.since - self._decisions.margin(action), back + 1) <= at < step:  # weights are others
                    decision["advice"] += f"; {name} is exported again: repeat what has read it"
        decision["documents"] = self.updates.suspects(batches, low=trouble.kind == "collapse")
        self._decisions.keep(decision)
        if action == "stop" or (back is None and action != "tell"):
            raise StepError(f"{decision['said']}; {decision['advice']}")
        if back is not None and self.config.zero.stage == 3:  # keeps small weights gathered, which stay as they were
            raise StepError(f"{decision['said']}, by the next start of this step, as ZeRO-3 reads states at its start")
        return back

    def _log(self, step: int) -> str:
        """Log what was measured since the last time; returns a note for the live view."""
        values, text, note, slow = self.updates.log(step)
        for found in slow:
            self._decisions.warn({"step": step, **found})
        if self._decisions.made:
            values["train/watch_decisions"] = float(len(self._decisions.made))
        # with the scaled loss of float16, a step whose gradient is not finite is left out
        passed = {"train/grad_norm"} if self.config.dtype == "float16" else set()
        check_finite({name: value for name, value in values.items() if name not in passed}, step)
        self._metrics(values, step)
        print(f"step {step}/{self.steps}  {text}", flush=True)
        return note

    def _after(self, step: int) -> bool:
        """Check, evaluate, export and save at the steps that are due; tells whether there was any."""
        if (every := self.config.check_every) and (step % every == 0 or step == self.steps):
            self.updates.check(step, computes=True)
        values = self.updates.evaluate(step)
        self._metrics(values, step)
        exported = self.updates.export(step)
        if self._due.follow(step, self._states.memory.waited, self._states.memory.carried):
            self._metrics({"perf/save_every": float(self._due.every)}, step)
        first = not self._due.saves and self.config.watch.acts  # to have one to go back to
        kept = self._engine.settled and (self._due.at(step) or first)
        brief = self.config.memory_every and step % self.config.memory_every == 0 and self._engine.settled
        saves = step < self.steps and bool(kept or brief)
        if saves:
            self._save(step, kept=kept)
        return saves or exported or bool(values)

    def _metrics(self, values: Mapping[str, float], step: int) -> None:
        if values and step > self._told:
            self.context.tracker.metrics(values, step=step)
            self._events.add(values, step)
