"""The loop of preferences, rewards and reinforcement: updates from the newest state to the end."""

import math
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from argosy.core.store.step_files import STATE
from argosy.model.post.config import PosttrainingConfig
from argosy.model.post.stage import Stage, check_values
from argosy.model.train.engines.base import Engine
from argosy.model.train.loop import StateStore
from argosy.model.train.resume import state_of_another

Values = dict[str, float]


class Updates:
    """The optimizer steps of a post-training step.

    Args:
        engine: what is saved; of several, an object with their `group`, `save` and `load`.
        steps: number of updates.
        carried: returns what the updates need of the ones before besides the engine (tensors, numbers, lists and
            dictionaries of them); each process calls it.
        restore: takes that over."""

    def __init__(
        self, stage: Stage[PosttrainingConfig], engine: Engine, steps: int,
        carried: Callable[[], Mapping[str, Any]] = dict, restore: Callable[[Mapping[str, Any]], None] | None = None,
    ) -> None:
        self._stage, self._steps, self._carried = stage, steps, carried
        other = partial(state_of_another, stage.config, stage.context.out)
        self._states = StateStore(stage.context.out / STATE, engine, other)
        self._window: list[Values] = []
        self._restore = restore

    def run(self, update: Callable[[int], Values]) -> int:
        """Call `update` with each number (0, 1, ...) of those that are left.

        `update` returns what is logged, the same in each process: numbers by name, of which the mean over `log_every`
        updates is logged; one that a later update of them lacks is a mean over those that have it. Returns the number
        of updates. Raises StepError: a value is not a finite number."""
        config, progress, begin = self._stage.config, self._stage.context.progress, self._resume()
        progress.update(begin, self._steps, "steps", force=True)
        for number in range(begin, self._steps):
            self._window.append(update(number))
            done = number + 1
            note = self._log(done) if done % config.log_every == 0 or done == self._steps else ""
            if done % config.save_every == 0 and done < self._steps:
                self._states.save(done, {"carried": dict(self._carried()), "window": self._window})
            progress.update(done, self._steps, "steps", note)
        return self._steps

    def _resume(self) -> int:
        saved = self._states.load()
        if saved is None:
            return 0
        self._window = list(saved["window"])
        if self._restore:
            self._restore(saved["carried"])
        print(f"continuing after step {saved['step']}", flush=True)
        return int(saved["step"])

    def _log(self, step: int) -> str:
        """Log the means of the window; returns a note for the live view."""
        names = dict.fromkeys(name for values in self._window for name in values)
        means = {}
        for name in names:
            held = [values[name] for values in self._window if name in values]
            means[name] = math.fsum(held) / len(held)
        self._window = []
        check_values(means, step)
        self._stage.context.tracker.metrics(means, step=step)
        print(f"step {step}/{self._steps}  " + "  ".join(f"{name} {value:.4g}" for name, value in means.items()),
              flush=True)
        return f"loss {means['train/loss']:.3f}" if "train/loss" in means else ""
