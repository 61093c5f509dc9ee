"""Two kinds of update: steps over samples, whose losses are kept by channel, and steps that return their numbers."""

import math
from abc import abstractmethod
from collections.abc import Callable, Mapping
from typing import Any, ClassVar, NamedTuple, Protocol

import torch
from torch import Tensor

from argosy.core.errors import StepError
from argosy.core.step.contract import StepContext
from argosy.corpus.tokens.mixture import Samples
from argosy.model.train.config import ChannelLoss, TrainConfig
from argosy.model.train.engines.base import Engine
from argosy.model.train.heldout import HeldoutLoss
from argosy.model.train.monitoring import ExpertLoad, Meter
from argosy.model.train.optim import learning_rate
from argosy.model.train.parallelism import Group
from argosy.model.weights.export import Exporter

Values = dict[str, float]


def check_finite(values: Mapping[str, float], step: int) -> None:
    """Check that what was measured in, or after, optimizer step `step` are finite numbers.

    Raises StepError: names each that is not."""
    wrong = [f"{name}={value}" for name, value in values.items() if not math.isfinite(value)]
    if wrong:
        raise StepError(f"at step {step}, {', '.join(wrong)} is not a finite number: training has diverged; lower "
                        "learning_rate or max_grad_norm, or lengthen the warm-up")


class Logged(NamedTuple):
    """The measurements since the last log: `text` for the terminal, a short `note` for the live view."""

    values: Values
    text: str
    note: str


class Updates(Protocol):
    """A kind of update. Each method is called in every process."""

    unit: ClassVar[str] = "steps"
    size: int = 1
    """Units of a step, in the live view."""

    @abstractmethod
    def take(self, step: int) -> None:
        """Take optimizer step `step` (1, 2, ...), and keep what is logged of it."""

    @abstractmethod
    def log(self, step: int) -> Logged:
        """Return what was measured since the last time, and forget it."""

    def end(self) -> None:
        """End a step, its log included."""
        return

    def check(self, step: int) -> None:
        """Check that what is kept of the steps is finite, of which `step` are done. Raises StepError: it is not."""
        return

    def evaluate(self, step: int) -> Values:
        """Return held-out results where they are due after `step` steps; 0 is before the first."""
        return {}

    def export(self, step: int) -> None:
        """Write the checkpoints that are due after `step` steps."""
        return

    @abstractmethod
    def state(self) -> dict[str, Any]:
        """Return what a resumable state has beside the engine: tensors, numbers, lists and dictionaries of them."""

    @abstractmethod
    def restore(self, saved: dict[str, Any]) -> None:
        """Continue from `state`."""


class Measured(Updates):
    """Updates that return their numbers, of which the means are logged: of preferences, rewards, reinforcement.

    Args:
        update: takes update `number` (0, 1, ...) and returns numbers by name, the same in each process; one that some
            updates lack is a mean over those that have it.
        carried: returns what the updates need of the ones before besides the engine.
        evaluate: returns held-out results that are due after a step.
        restore: takes that over."""

    def __init__(self, update: Callable[[int], Values], carried: Callable[[], Mapping[str, Any]] = dict,
                 restore: Callable[[Mapping[str, Any]], None] = lambda _: None,
                 evaluate: Callable[[int], Values] = lambda _: {}) -> None:
        self._update, self._carried, self._restore, self._evaluate = update, carried, restore, evaluate
        self._window: list[Values] = []

    def take(self, step: int) -> None:
        self._window.append(self._update(step - 1))

    def log(self, step: int) -> Logged:
        means = {}
        for name in dict.fromkeys(name for values in self._window for name in values):
            held = [values[name] for values in self._window if name in values]
            means[name] = math.fsum(held) / len(held)
        self._window = []
        note = f"loss {means['train/loss']:.3f}" if "train/loss" in means else ""
        return Logged(means, "  ".join(f"{name} {value:.4g}" for name, value in means.items()), note)

    def evaluate(self, step: int) -> Values:
        return self._evaluate(step)

    def state(self) -> dict[str, Any]:
        return {"carried": dict(self._carried()), "window": self._window}

    def restore(self, saved: dict[str, Any]) -> None:
        self._window = list(saved["window"])
        self._restore(saved["carried"])


class Sampled(Updates):
    """Updates over samples, with losses by channel, held-out losses and exports on the way: of pretraining and SFT.

    Args:
        heldout: None where the step evaluates and exports its model by itself, before and after the loop.

    Attributes:
        results: the held-out losses at the start and at the end, as `before` and `after`."""

    unit: ClassVar[str] = "tokens"

    def __init__(self, config: TrainConfig, context: StepContext, engine: Engine, samples: Samples,
                 heldout: HeldoutLoss | None, exporter: Exporter) -> None:
        self.config, self.context, self.engine, self.size = config, context, engine, config.tokens_per_step
        self.samples, self.heldout, self.exporter = samples, heldout, exporter
        self.results: dict[str, dict[str, ChannelLoss]] = {"before": {}}
        self._losses = LossWindow(samples.names, engine.group)
        self._experts = ExpertLoad(engine.module, engine.group)
        self._meter = Meter(config, engine.group, engine.module.model, engine.clock)
        self._exports = config.export_steps() if heldout else {}
        self._evaluations = {0, *config.heldout_steps()}
        self._last = 0.0, torch.zeros(())  # learning rate and gradient's norm
        engine.module.train()  # a model that was loaded or asked before is in evaluation mode

    def take(self, step: int) -> None:
        clock = self.engine.clock
        clock.start()
        rate = learning_rate(self.config, step - 1)
        batch = self.samples.batch(self.engine.positions(step - 1))
        clock.lap("read")
        sums, counts, norm = self.engine.train_step(batch, rate)
        self._losses.add(sums, counts)
        self._last = rate, norm

    def end(self) -> None:
        self.engine.clock.lap("log")
        self.engine.clock.stop()

    def check(self, step: int) -> None:
        self._losses.check(step)

    def log(self, step: int) -> Logged:
        self._losses.check(step)
        rate, norm = self._last[0], float(self._last[1])
        losses, watched = self._losses.take() | self._experts.metrics(self.context), self._meter.metrics()
        loss, speed, tokens = losses["train/loss"], watched["perf/tokens_per_second"], step * self.size
        own = {"train/lr": rate, "train/grad_norm": norm, **self.engine.measures()}
        if self.heldout:  # by which reports know the phases of pretraining
            own["train/tokens"] = float(self.exporter.tokens_before + tokens)
        channels = " ".join(f"{name.removeprefix('train/loss/')} {value:.3f}" for name, value in losses.items()
                            if name.startswith("train/loss/"))
        text = (f"{tokens:,} tokens  loss {loss:.4f}  [{channels}]  lr {rate:.2e}  grad {norm:.2f}  {speed:,.0f} tok/s")
        mfu = f", MFU {watched['perf/mfu']:.0%}" if "perf/mfu" in watched else ""
        return Logged({**losses, **own, **watched}, text, f"loss {loss:.3f}, {speed:,.0f} tok/s{mfu}")

    def evaluate(self, step: int) -> Values:
        if self.heldout is None or step not in self._evaluations:
            return {}
        with self.context.progress.during("held-out loss"):
            result = self.heldout.by_channel(self.engine.module)
        self.results["after" if step else "before"] = result
        channels = " ".join(f"{name} {loss.bpb:.3f}" for name, loss in result.items())
        print(f"step {step}/{self.config.steps}  held-out bits per byte: {channels}", flush=True)
        return {f"heldout/{kind}/{name}": value for name, loss in result.items()
                for kind, value in loss.model_dump().items()}

    def export(self, step: int) -> None:
        for name in (name for name, at in self._exports.items() if at == step):
            self._losses.check(step)
            self.exporter.write(name, self.engine.module.model, step, step * self.size, self.engine.weights())

    def state(self) -> dict[str, Any]:
        heldout = {when: {name: loss.model_dump() for name, loss in result.items()}
                   for when, result in self.results.items()}
        return {**self._losses.state(), **self._experts.state(), "heldout": heldout}

    def restore(self, saved: dict[str, Any]) -> None:
        self._losses.restore(saved)
        self._experts.restore(saved)
        self.results = {when: {name: ChannelLoss(**loss) for name, loss in result.items()}
                        for when, result in saved["heldout"].items()}


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

        Raises StepError: names the first step and the channels whose loss is not."""
        if not self._steps:
            return
        # over all processes, so that all of them stop and none waits for another
        nats = self._group.sum(torch.stack(self._steps))[:, 0].cpu()
        finite = nats.isfinite()
        if bool(finite.all()):
            return
        first = int((~finite).any(dim=1).nonzero()[0])
        values = {f"train/loss/{name}": nats for name, nats in zip(self._names, nats[first].tolist(), strict=True)}
        check_finite(values, step - len(self._steps) + first + 1)

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
