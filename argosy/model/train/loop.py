"""The loop: optimizer steps from the newest state to the end, with logs, held-out losses, states and exports."""

import math
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from argosy.core.errors import StepError
from argosy.core.step.contract import StepContext
from argosy.core.store.files import publish, temporary_of
from argosy.core.store.step_files import STATE
from argosy.corpus.tokens.mixture import Samples
from argosy.model.train.config import ChannelLoss, TrainConfig
from argosy.model.train.engines.base import Engine
from argosy.model.train.expert_load import ExpertLoad
from argosy.model.train.heldout import HeldoutLoss
from argosy.model.train.monitoring.meter import Meter
from argosy.model.train.monitoring.trace import Events, Trace
from argosy.model.train.optim import learning_rate
from argosy.model.train.parallel import Group
from argosy.model.train.resume import state_of_another
from argosy.model.train.state import delete_old, latest_state, mark_complete
from argosy.model.weights.export import Exporter

_ADVICE = "lower learning_rate or max_grad_norm, or lengthen the warm-up"


class LossWindow:
    """Collects each step's summed nats and counts by channel; summed over processes when it is read.

    Its `state` goes into the resumable state, so that a resumed run logs the same averages."""

    def __init__(self, names: tuple[str, ...], group: Group) -> None:
        self._names = names
        self._group = group
        self._steps: list[Tensor] = []  # (2, channels) each: nats and counts

    def add(self, sums: Tensor, counts: Tensor) -> None:
        """Add one step's summed nats and number of targets by channel, both (channels,), of this process."""
        self._steps.append(torch.stack([sums, counts]))

    def __len__(self) -> int:
        return len(self._steps)

    def state(self) -> dict[str, Any]:
        """Return the steps' sums over all processes, for `restore`; each process calls this."""
        return {"losses": [self._group.sum(step).cpu() for step in self._steps]}

    def restore(self, state: dict[str, Any]) -> None:
        """Continue from `state`; one process holds the sums of all, so that the sum over processes stays."""
        share = 1.0 if self._group.rank == 0 else 0.0
        self._steps = [step.to(self._group.device) * share for step in state["losses"]]

    def check(self, step: int) -> None:
        """Check that every loss is finite; `step` is the number of steps done.

        Raises StepError: names the first step and the channels whose loss is not a number."""
        if not self._steps:
            return
        # over all processes, so that all of them stop and none waits for another
        finite = self._group.sum(torch.stack(self._steps))[:, 0].isfinite().cpu()
        if bool(finite.all()):
            return
        first = int((~finite).any(dim=1).nonzero()[0])
        channels = [name for name, ok in zip(self._names, finite[first].tolist(), strict=True) if not ok]
        raise StepError(
            f"the loss at step {step - len(self._steps) + first + 1} is not a finite number, in channel "
            f"{', '.join(channels)}: {_ADVICE}"
        )

    def take(self) -> dict[str, float]:
        """Return the mean nats over the window as `train/loss` and `train/loss/<channel>`, and those of its highest and
        lowest step as `train/loss_max`, `train/loss_min` likewise, so that a spike is seen; empties it."""
        steps = self._group.sum(torch.stack(self._steps)).cpu()
        self._steps = []
        columns = {"": steps.sum(dim=2)} | {f"/{name}": steps[:, :, index] for index, name in enumerate(self._names)}
        losses = {}
        for name, column in columns.items():
            nats, counts = column[column[:, 1] > 0].unbind(dim=1)
            if len(counts):
                each = nats / counts
                losses[f"train/loss{name}"] = float(nats.sum() / counts.sum())
                losses |= {f"train/loss_max{name}": float(each.max()), f"train/loss_min{name}": float(each.min())}
        return losses


def _check_norm(norm: float, step: int, config: TrainConfig) -> None:
    """Check that step `step` had a finite gradient, without which its weights are none either; with a scaled loss
    (float16) it is left out. Raises StepError."""
    if not math.isfinite(norm) and config.dtype != "float16":
        raise StepError(f"the norm of the gradient at step {step} is not a finite number: {_ADVICE}")


PREFIX = "step-"


class StateStore:
    """States of one phase, each a directory `step-<n>` that is renamed into place when all of it is on the disk."""

    def __init__(self, directory: Path, engine: Engine, other: Callable[[], Path | None]) -> None:
        """`other`: finds the state of another run, where this one has none yet."""
        self._directory, self._other = directory, other
        self._engine, self._group = engine, engine.group

    def save(self, step: int, extra: dict[str, Any]) -> None:
        """Keep the state after `step` steps, with the tensors and numbers of `extra`, and drop the older ones."""
        target = self._directory / f"{PREFIX}{step:08d}"
        temporary = self._group.agreed(temporary_of(target))
        if self._group.rank == 0:
            temporary.mkdir(parents=True)
        self._group.barrier()
        self._engine.save(temporary)
        self._group.barrier()
        if self._group.rank == 0:
            torch.save({"step": step, "rng": torch.get_rng_state(), **extra}, temporary / "loop.pt")
            mark_complete(temporary)
            publish(temporary, target)
            delete_old(self._directory, PREFIX)
        self._group.barrier()

    def load(self) -> dict[str, Any] | None:
        """Bring the engine to the newest whole state, else to the other run's; returns its `extra` and `step`, or None
        where there is none."""
        newest = latest_state(self._directory, PREFIX, self._group.rank) or self._other()
        if newest is None:
            return None
        self._engine.load(newest)
        with torch.serialization.safe_globals([np.ndarray]):
            loop: dict[str, Any] = torch.load(newest / "loop.pt", weights_only=True)
        torch.set_rng_state(loop.pop("rng"))
        return loop


class Loop:
    """The optimizer steps of one phase."""

    def __init__(self, config: TrainConfig, context: StepContext, engine: Engine, samples: Samples,
                 heldout: HeldoutLoss | None, exporter: Exporter) -> None:
        """`heldout`: None where the step evaluates and exports its model by itself, before and after the loop."""
        self.config, self.context, self.engine = config, context, engine
        self.samples, self.heldout, self.exporter = samples, heldout, exporter
        self._states = StateStore(context.out / STATE, engine, partial(state_of_another, config, context.out))
        self._losses = LossWindow(samples.names, engine.group)
        self._experts = ExpertLoad(engine.module, engine.group)
        self._meter = Meter(config, engine.group, engine.module.model, engine.clock)
        self._trace, self._events = Trace(config.profile, context), Events(config.tensorboard, context)
        self._results: dict[str, dict[str, ChannelLoss]] = {}
        points = config.heldout_points if heldout else 0
        self._exports = config.export_steps() if heldout else {}
        self._evaluations = {max(1, round(config.steps * n / points)) for n in range(1, points + 1)}

    def run(self) -> dict[str, dict[str, ChannelLoss]]:
        """Train to the end; returns the held-out losses at the start and at the end, as `before` and `after`."""
        note, tokens, done = "", self.config.tokens_per_step, self._resume()
        self.context.progress.update(done * tokens, self.config.steps * tokens, "tokens", force=True)
        self.engine.module.train()  # a model that was loaded or asked before is in evaluation mode
        for step in range(done + 1, self.config.steps + 1):
            with self._trace.step(step):
                note = self._step(step) or note
            self.context.progress.update(step * tokens, self.config.steps * tokens, "tokens", note)
            self._after(step)
        return self._results

    def _step(self, step: int) -> str:
        """Take an optimizer step and log it where that is due; returns the log's note for the live view."""
        clock, note = self.engine.clock, ""
        clock.start()
        rate = learning_rate(self.config, step - 1)
        batch = self.samples.batch(self.engine.positions(step - 1))
        clock.lap("read")
        sums, counts, norm = self.engine.train_step(batch, rate)
        self._losses.add(sums, counts)
        if step % self.config.log_every == 0 or step == self.config.steps:
            note = self._log(step, rate, norm)
        clock.lap("log")
        clock.stop()
        return note

    def _resume(self) -> int:
        """Continue from the newest state, or evaluate the model before training; returns the steps done."""
        saved = self._states.load()
        if saved is None:
            self._results["before"] = self._evaluate(0)
            return 0
        self._losses.restore(saved)
        self._experts.restore(saved)
        self._results = {when: {name: ChannelLoss(**loss) for name, loss in result.items()}
                         for when, result in saved["heldout"].items()}
        print(f"continuing after step {saved['step']}", flush=True)
        return int(saved["step"])

    def _after(self, step: int) -> None:
        """Evaluate, export and save at the steps that are due."""
        exports = [name for name, at in self._exports.items() if at == step]
        saving = step % self.config.save_every == 0 and step < self.config.steps
        if saving or exports:
            self._losses.check(step)
        if step in self._evaluations:
            self._results["after"] = self._evaluate(step)
        for name in exports:
            weights = self.engine.weights()
            self.exporter.write(name, self.engine.module.model, step, step * self.config.tokens_per_step, weights)
        if saving:
            heldout = {when: {name: loss.model_dump() for name, loss in result.items()}
                       for when, result in self._results.items()}
            self._states.save(step, {**self._losses.state(), **self._experts.state(), "heldout": heldout})

    def _log(self, step: int, rate: float, norm: Tensor) -> str:
        """Log the losses since the last time; returns a note for the live view."""
        self._losses.check(step)
        _check_norm(float(norm), step, self.config)
        values, watched = self._losses.take() | self._experts.metrics(self.context), self._meter.metrics()
        loss, speed = values["train/loss"], watched["perf/tokens_per_second"]
        tokens = step * self.config.tokens_per_step
        total = float(self.exporter.tokens_before + tokens)
        own = {"train/lr": rate, "train/grad_norm": float(norm), **self.engine.measures()}
        own |= {"train/tokens": total} if self.heldout else {}  # by which reports know the phases of pretraining
        self._metrics({**values, **own, **watched}, step)
        channels = " ".join(f"{name.removeprefix('train/loss/')} {value:.3f}" for name, value in values.items()
                            if name.startswith("train/loss/"))
        print(f"step {step}/{self.config.steps}  {tokens:,} tokens  loss {loss:.4f}  [{channels}]  lr {rate:.2e}  "
              f"grad {float(norm):.2f}  {speed:,.0f} tok/s", flush=True)
        mfu = f", MFU {watched['perf/mfu']:.0%}" if "perf/mfu" in watched else ""
        return f"loss {loss:.3f}, {speed:,.0f} tok/s{mfu}"

    def _metrics(self, values: Mapping[str, float], step: int) -> None:
        self.context.tracker.metrics(values, step=step)
        self._events.add(values, step)

    def _evaluate(self, step: int) -> dict[str, ChannelLoss]:
        if self.heldout is None:
            return {}
        with self.context.progress.during("held-out loss"):
            result = self.heldout.by_channel(self.engine.module)
        metrics = {f"heldout/{kind}/{name}": value for name, loss in result.items()
                   for kind, value in loss.model_dump().items()}
        self._metrics(metrics, step)
        channels = " ".join(f"{name} {loss.bpb:.3f}" for name, loss in result.items())
        print(f"step {step}/{self.config.steps}  held-out bits per byte: {channels}", flush=True)
        return result
