"""The loop: optimizer steps from the newest state to the end, with logs, held-out losses, states and exports."""

from __future__ import annotations

import time

from torch import Tensor

from argosy.step import StepContext
from argosy.tokens.mixture import Mixture
from argosy.training.config import ChannelLoss, TrainConfig
from argosy.training.engine import Engine
from argosy.training.export import Exporter
from argosy.training.heldout import HeldoutLoss
from argosy.training.losses import LossWindow
from argosy.training.schedule import learning_rate
from argosy.training.state import StateStore


class Loop:
    """The optimizer steps of one phase."""

    def __init__(self, config: TrainConfig, context: StepContext, engine: Engine, mixture: Mixture,
                 heldout: HeldoutLoss, exporter: Exporter) -> None:
        self.config, self.context, self.engine = config, context, engine
        self.mixture, self.heldout, self.exporter = mixture, heldout, exporter
        self._states = StateStore(context.out / "state", engine)
        self._losses = LossWindow(mixture.names, engine)
        self._rate = _Rate(config.tokens_per_step)
        self._results: dict[str, dict[str, ChannelLoss]] = {}
        points = config.heldout_points
        self._evaluations = {max(1, round(config.steps * n / points)) for n in range(1, points + 1)}

    def run(self) -> dict[str, dict[str, ChannelLoss]]:
        """Train to the end; returns the held-out losses at the start and at the end, as `before` and `after`."""
        note = ""
        first = self._resume()
        self._rate.restart(first)
        for step in range(first + 1, self.config.steps + 1):
            rate = learning_rate(self.config, step - 1)
            sums, counts, norm = self.engine.train_step(self.mixture.batch(self._positions(step - 1)), rate)
            self._losses.add(sums, counts)
            if step % self.config.log_every == 0 or step == self.config.steps:
                note = self._log(step, rate, norm)
            self._after(step)
            if self.engine.rank == 0:
                tokens = self.config.tokens_per_step
                self.context.progress.update(step * tokens, self.config.steps * tokens, "tokens", note)
        return self._results

    def _resume(self) -> int:
        """Go to the newest state, or evaluate the model as it is; returns the steps done."""
        saved = self._states.load()
        if saved is None:
            self._results["before"] = self._evaluate(0)
            return 0
        self._losses.restore(saved)
        self._results = {when: {name: ChannelLoss(**loss) for name, loss in result.items()}
                         for when, result in saved["heldout"].items()}
        self._say(f"continuing after step {saved['step']}")
        return int(saved["step"])

    def _after(self, step: int) -> None:
        """Evaluate, export and save, where it is time to."""
        exports = [name for name, at in self.config.export_steps().items() if at == step]
        saving = step % self.config.save_every == 0 and step < self.config.steps
        if saving or exports:
            self._losses.check(step)
        if step in self._evaluations:
            self._results["after"] = self._evaluate(step)
        for name in exports if self.engine.rank == 0 else []:
            self.exporter.write(name, self.engine.module.model, step, step * self.config.tokens_per_step)
        if saving:
            heldout = {when: {name: loss.model_dump() for name, loss in result.items()}
                       for when, result in self._results.items()}
            self._states.save(step, {**self._losses.state(), "heldout": heldout})

    def _positions(self, step: int) -> range:
        """This process's samples of step `step` (0, 1, ...)."""
        start = step * self.config.global_batch_size + self.engine.rank * self.engine.share
        return range(start, start + self.engine.share)

    def _log(self, step: int, rate: float, norm: Tensor) -> str:
        """Log the losses since the last time; returns a note for the live view."""
        self._losses.check(step)
        values = self._losses.take()
        loss = values["train/loss"]
        tokens = step * self.config.tokens_per_step
        if self.engine.rank == 0:
            total = float(self.exporter.tokens_before + tokens)
            self.context.tracker.metrics(
                {**values, "train/lr": rate, "train/grad_norm": float(norm), "train/tokens": total}, step=step)
        channels = " ".join(f"{name.removeprefix('train/loss/')} {value:.3f}" for name, value in values.items()
                            if name != "train/loss")
        self._say(f"step {step}/{self.config.steps}  {tokens:,} tokens  loss {loss:.4f}  [{channels}]  lr {rate:.2e}  "
                  f"grad {float(norm):.2f}  {self._rate.since(step):,.0f} tok/s")
        return f"loss {loss:.3f}"

    def _evaluate(self, step: int) -> dict[str, ChannelLoss]:
        result = self.heldout.by_channel(self.engine.module)
        if self.engine.rank == 0:
            metrics = {f"heldout/{kind}/{name}": value for name, loss in result.items()
                       for kind, value in loss.model_dump().items()}
            self.context.tracker.metrics(metrics, step=step)
            channels = " ".join(f"{name} {loss.bpb:.3f}" for name, loss in result.items())
            self._say(f"step {step}/{self.config.steps}  held-out bits per byte: {channels}")
        return result

    def _say(self, line: str) -> None:
        if self.engine.rank == 0:
            print(line, flush=True)


class _Rate:
    """Tokens a second between two log lines."""

    def __init__(self, tokens_per_step: int) -> None:
        self._tokens = tokens_per_step

    def restart(self, step: int) -> None:
        """Count from `step`."""
        self._step, self._time = step, time.monotonic()

    def since(self, step: int) -> float:
        """Tokens a second since the last call."""
        rate = (step - self._step) * self._tokens / max(time.monotonic() - self._time, 1e-9)
        self.restart(step)
        return rate
