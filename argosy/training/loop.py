"""The loop: optimizer steps from the newest state to the end, with logs, held-out losses, states and exports."""

from __future__ import annotations

import time
from dataclasses import dataclass

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


@dataclass(frozen=True)
class Loop:
    """Everything that a phase's steps touch."""

    config: TrainConfig
    context: StepContext
    engine: Engine
    mixture: Mixture
    heldout: HeldoutLoss
    exporter: Exporter

    def run(self) -> dict[str, dict[str, ChannelLoss]]:
        """Train to the end; returns the held-out losses at the start and at the end, as `before` and `after`."""
        config, engine = self.config, self.engine
        states = StateStore(self.context.out / "state", engine)
        losses = LossWindow(self.mixture.names, engine)
        first, results = 0, {}
        if saved := states.load():
            first = int(saved["step"])
            losses.restore(saved)
            results = {when: _parse(value) for when, value in saved["heldout"].items()}
            self._say(f"continuing after step {first}")
        else:
            results["before"] = self._evaluate(0)
        exports = config.export_steps()
        evaluations = {round(config.steps * n / config.heldout_points) for n in range(1, config.heldout_points + 1)}
        started, logged = time.monotonic(), first
        for step in range(first + 1, config.steps + 1):
            rate = learning_rate(config, step - 1)
            sums, counts, norm = engine.train_step(self.mixture.batch(self._positions(step - 1)), rate)
            losses.add(sums, counts)
            if step % config.log_every == 0 or step == config.steps:
                elapsed, started = time.monotonic() - started, time.monotonic()
                self._log(step, losses, rate, norm, (step - logged) * config.tokens_per_step / max(elapsed, 1e-9))
                logged = step
            saving = step % config.save_every == 0 and step < config.steps
            if saving or step in exports:
                losses.check(step)
            if step in evaluations:
                results["after"] = self._evaluate(step)
            if step in exports and engine.rank == 0:
                self.exporter.write(exports[step], engine.module.model, step, step * config.tokens_per_step)
            if saving:
                dumped = {when: {name: loss.model_dump() for name, loss in result.items()}
                          for when, result in results.items()}
                states.save(step, {**losses.state(), "heldout": dumped})
        states.remove()
        return results

    def _positions(self, step: int) -> range:
        """This process's samples of step `step` (0, 1, ...)."""
        start = step * self.config.global_batch_size + self.engine.rank * self.engine.share
        return range(start, start + self.engine.share)

    def _log(self, step: int, losses: LossWindow, rate: float, norm: Tensor, throughput: float) -> None:
        losses.check(step)
        values = losses.take()
        tokens = step * self.config.tokens_per_step
        if self.engine.rank:
            return
        metrics = {**values, "train/lr": rate, "train/grad_norm": float(norm),
                   "train/tokens": float(self.exporter.tokens_before + tokens)}
        self.context.tracker.metrics(metrics, step=step)
        total = self.config.steps * self.config.tokens_per_step
        self.context.progress.update(tokens, total, "tokens", f"loss {values['train/loss']:.3f}")
        channels = " ".join(f"{name.split('/')[-1]} {value:.3f}" for name, value in values.items() if name.count("/") > 1)
        self._say(f"step {step}/{self.config.steps}  {tokens:,} tokens  loss {values['train/loss']:.4f}  [{channels}]  "
                  f"lr {rate:.2e}  grad {float(norm):.2f}  {throughput:,.0f} tok/s")

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


def _parse(result: dict[str, dict[str, float]]) -> dict[str, ChannelLoss]:
    return {name: ChannelLoss(**values) for name, values in result.items()}
