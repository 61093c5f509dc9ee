"""One loop under pretraining, SFT, preferences and RL: optimizer steps from the newest state to the end, with logs,
held-out losses, states and exports."""

from collections.abc import Mapping

from argosy.core.step.contract import StepContext
from argosy.model.train.config import TrainConfig
from argosy.model.train.monitoring import Events, Trace
from argosy.model.train.state import Savable, StateStore
from argosy.model.train.updates import Updates, check_finite


class Loop:
    """The optimizer steps of a phase, of any kind of update.

    Args:
        engine: what is saved beside the state of the updates.
        steps: number of updates, where one is several steps of the phase; 0: the phase's."""

    def __init__(self, config: TrainConfig, context: StepContext, engine: Savable, updates: Updates,
                 steps: int = 0) -> None:
        self.config, self.context, self.updates, self.steps = config, context, updates, steps or config.steps
        self._states = StateStore(config, context.out, engine)
        self._trace, self._events = Trace(config.profile, context), Events(config.tensorboard, context)

    def run(self) -> None:
        """Train to the end. Raises StepError: a measured number is not finite."""
        config, updates, note, done = self.config, self.updates, "", self._resume()
        self._tell(done, force=True)
        for step in range(done + 1, self.steps + 1):
            with self._trace.step(step):
                updates.take(step)
                if step % config.log_every == 0 or step == self.steps:
                    note = self._log(step)
                updates.end()
            self._tell(step, note)
            self._after(step)

    def _tell(self, step: int, note: str = "", *, force: bool = False) -> None:
        size = self.updates.size
        self.context.progress.update(step * size, self.steps * size, self.updates.unit, note, force=force)

    def _resume(self) -> int:
        """Continue from the newest state, or evaluate the model before training; returns the steps done."""
        saved = self._states.load()
        if saved is None:
            self._metrics(self.updates.evaluate(0), 0)
            return 0
        self.updates.restore(saved)
        print(f"continuing after step {saved['step']}", flush=True)
        return int(saved["step"])

    def _log(self, step: int) -> str:
        """Log what was measured since the last time; returns a note for the live view."""
        values, text, note = self.updates.log(step)
        # with the scaled loss of float16, a step whose gradient is not finite is left out
        passed = {"train/grad_norm"} if self.config.dtype == "float16" else set()
        check_finite({name: value for name, value in values.items() if name not in passed}, step)
        self._metrics(values, step)
        print(f"step {step}/{self.steps}  {text}", flush=True)
        return note

    def _after(self, step: int) -> None:
        """Evaluate, export and save at the steps that are due."""
        saving = step % self.config.save_every == 0 and step < self.steps
        if saving:
            self.updates.check(step)
        self._metrics(self.updates.evaluate(step), step)
        self.updates.export(step)
        if saving:
            self._states.save(step, self.updates.state())

    def _metrics(self, values: Mapping[str, float], step: int) -> None:
        if values:
            self.context.tracker.metrics(values, step=step)
            self._events.add(values, step)
