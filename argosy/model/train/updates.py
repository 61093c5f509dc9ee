"""Two kinds of update: steps over samples, whose losses are kept by channel, and steps that return their numbers."""

import math
from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, ClassVar, NamedTuple, Protocol
from zlib import crc32

import torch

from argosy.core.errors import StepError
from argosy.core.step.contract import StepContext
from argosy.corpus.tokens.mixture import Samples
from argosy.corpus.tokens.windows import IGNORED
from argosy.model.train.clock import Stragglers
from argosy.model.train.config import ChannelLoss, TrainConfig
from argosy.model.train.corruption import Copies
from argosy.model.train.decisions import Turn, plain
from argosy.model.train.engines.base import Engine
from argosy.model.train.heldout import HeldoutLoss
from argosy.model.train.monitoring import ExpertLoad, LossWindow, Meter
from argosy.model.train.optim import learning_rate
from argosy.model.train.watch import LOSS, NORM, RATE, UPDATE, Reading
from argosy.model.weights.export import Exporter

Values = dict[str, float]
Suspect = dict[str, Any]
SUSPECTS, SHOWN = 12, 160  # documents of a decision, and characters of each


def check_finite(values: Mapping[str, float], step: int) -> None:
    """Check that what was measured in, or after, optimizer step `step` are finite numbers.

    Raises StepError: names each that is not."""
    wrong = [f"{name}={value}" for name, value in values.items() if not math.isfinite(value)]
    if wrong:
        raise StepError(f"at step {step}, {', '.join(wrong)} is not a finite number: training has diverged; lower "
                        "learning_rate or max_grad_norm, or lengthen the warm-up")


class Logged(NamedTuple):
    """The measurements since the last log: `text` for the terminal, a short `note` for the live view, records of ranks
    that turn out to be slow."""

    values: Values
    text: str
    note: str
    slow: Sequence[dict[str, Any]] = ()


class Updates(Protocol):
    """A kind of update. Each method is called in every process."""

    unit: ClassVar[str] = "steps"
    size: int = 1
    """Units of a step, in the live view."""
    guess: float = math.inf
    """Loss of a guess among all tokens; infinite where the loss is none of tokens."""

    @abstractmethod
    def take(self, turn: Turn) -> None:
        """Take an optimizer step, and keep what is logged of it."""

    @abstractmethod
    def readings(self) -> Mapping[str, Reading]:
        """Return the numbers of the last step that are watched, the same in each process."""

    def suspects(self, batches: Sequence[int], *, low: bool) -> list[Suspect]:
        """Return documents of these batches with their channels and losses: the highest ones, or the lowest (`low`)."""
        return []

    @abstractmethod
    def log(self, step: int) -> Logged:
        """Return what was measured since the last time, and forget it."""

    def end(self) -> None:
        """End a step, its log included."""
        return

    def evaluate(self, step: int) -> Values:
        """Return held-out results where they are due after `step` steps; 0 is before the first."""
        return {}

    def check(self, step: int, *, computes: bool) -> None:
        """Raise RankFailed where a process is found to compute or hold something else than the others."""
        return

    def export(self, step: int) -> bool:
        """Write the checkpoints that are due after `step` steps; tells whether there are any."""
        return False

    @abstractmethod
    def state(self) -> dict[str, Any]:
        """Return what a resumable state has beside the engine: tensors, numbers, lists and dictionaries of them."""

    @abstractmethod
    def restore(self, saved: dict[str, Any]) -> None:
        """Continue from `state`."""


class Measured(Updates):
    """Updates that return their numbers, of which the means are logged: of preferences, rewards, reinforcement.

    Args:
        update: takes an update and returns numbers by name, the same in each process; one that some updates lack is a
            mean over those that have it.
        carried: returns what the updates need of the ones before besides the engine.
        evaluate: returns held-out results that are due after a step.
        restore: takes that over.
        suspects: returns examples of a batch, without an order.
        watched: names of numbers that are watched, beside losses of channels."""

    def __init__(self, update: Callable[[Turn], Values], carried: Callable[[], Mapping[str, Any]] = dict,
                 restore: Callable[[Mapping[str, Any]], None] = lambda _: None,
                 evaluate: Callable[[int], Values] = lambda _: {},
                 suspects: Callable[[int], list[Suspect]] = lambda _: [],
                 watched: tuple[str, ...] = (LOSS, NORM, RATE, UPDATE)) -> None:
        self._update, self._carried, self._restore, self._evaluate = update, carried, restore, evaluate
        self._suspects, self._watched = suspects, watched
        self._window: list[Values] = []

    def take(self, turn: Turn) -> None:
        self._window.append(self._update(turn))

    def readings(self) -> Mapping[str, Reading]:
        return {name: (value, 1.0) for name, value in self._window[-1].items()
                if name in self._watched or name.startswith(f"{LOSS}/")}

    def suspects(self, batches: Sequence[int], *, low: bool) -> list[Suspect]:
        return [each for batch in batches for each in self._suspects(batch)][:SUSPECTS]

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
        heldout: None where the step evaluates and exports its model by itself: with `measure`, and after the loop.

    Attributes:
        measure: returns its held-out results that are due after a step.
        results: the held-out losses at the start and at the end, as `before` and `after`."""

    unit: ClassVar[str] = "tokens"

    def __init__(self, config: TrainConfig, context: StepContext, engine: Engine, samples: Samples,
                 heldout: HeldoutLoss | None, exporter: Exporter) -> None:
        self.config, self.context, self.engine, self.size = config, context, engine, config.tokens_per_step
        self.samples, self.heldout, self.exporter = samples, heldout, exporter
        self.results: dict[str, dict[str, ChannelLoss]] = {"before": {}}
        self.measure: Callable[[int], Values] = lambda _: {}
        self._losses = LossWindow(samples.names, engine.group)
        self._experts = ExpertLoad(engine.module, engine.group)
        self._meter = Meter(config, engine.group, engine.module.model, engine.clock)
        self._stragglers, self._copies = Stragglers(engine.group), Copies(engine, samples)
        self._exports = config.export_steps() if heldout else {}
        self._evaluations = {0, *config.heldout_steps()}
        self._last: Values = {}  # learning rate, sizes of gradient and update
        self.guess = math.log(engine.module.model.config.get_text_config().vocab_size)
        engine.module.train()  # a model that was loaded or asked before is in evaluation mode

    def take(self, turn: Turn) -> None:
        clock = self.engine.clock
        clock.start()
        rate = turn.rate * learning_rate(self.config, turn.step)
        batch = self.samples.batch(self.engine.positions(turn.batch))
        clock.lap("read")
        sums, counts, norm = self.engine.train_step(batch, rate)
        self._losses.add(sums, counts, crc32(batch.inputs.tobytes()))
        self._last = {RATE: rate, **self.engine.sizes(norm)}

    def readings(self) -> Mapping[str, Reading]:
        # with the scaled loss of float16, a step whose gradient is not finite is left out
        return self._losses.last() | {name: (value, 1.0) for name, value in self._last.items()
                                      if self.config.dtype != "float16" or math.isfinite(value)}

    def suspects(self, batches: Sequence[int], *, low: bool) -> list[Suspect]:
        own = [each for batch in batches for each in self._documents(self.engine.positions(batch))]
        every = {(each["sample"], each["text"]): each for part in self.engine.group.gathered(own) for each in part}
        worst = sorted(every.values(), key=lambda each: (each["loss"] if low else -each["loss"], each["sample"]))
        return [{**each, "loss": plain(each["loss"])} for each in worst[:SUSPECTS]]

    @torch.no_grad()
    def _documents(self, positions: range) -> Iterator[Suspect]:
        """Yield the documents of samples with their mean losses under the weights as they are; none where a process
        has parts of each sample or of the model alone."""
        module, device = self.engine.module, self.engine.group.device
        if self.config.sequence_parallel * self.config.pipeline_parallel > 1:
            return
        module.eval()
        for position in positions:
            batch = self.samples.batch(range(position, position + 1))
            given = [torch.from_numpy(each).to(device) for each in (batch.inputs, batch.targets, batch.documents)]
            nats = module(*given[:2], None, given[2] if self.config.document_mask else None)[1].flatten().cpu().numpy()
            scored = batch.targets[0] != IGNORED
            for number in sorted(set(batch.documents[0][scored].tolist())):
                where = batch.documents[0] == number
                text = self.exporter.tokenizer.decode(batch.inputs[0][where][: SHOWN // 2].tolist())[:SHOWN]
                channel = self.samples.names[int(batch.channels[0][where & scored][-1])]
                yield {"sample": position, "channel": channel, "loss": float(nats[where & scored].mean()), "text": text}
        module.train()

    def end(self) -> None:
        self.engine.clock.lap("log")
        self.engine.clock.stop()

    def log(self, step: int) -> Logged:
        losses, watched = self._losses.take() | self._experts.metrics(self.context), self._meter.metrics()
        loss, speed, tokens = losses["train/loss"], watched["perf/tokens_per_second"], step * self.size
        own = {**self._last, **self.engine.measures()}
        if self.heldout:  # by which reports know the phases of pretraining
            own["train/tokens"] = float(self.exporter.tokens_before + tokens)
        channels = " ".join(f"{name.removeprefix('train/loss/')} {value:.3f}" for name, value in losses.items()
                            if name.startswith("train/loss/"))
        text = (f"{tokens:,} tokens  loss {loss:.4f}  [{channels}]  lr {own[RATE]:.2e}  grad {own[NORM]:.2f}  "
                f"{speed:,.0f} tok/s")
        slower, slow = self._stragglers.see(*self.engine.clock.last)
        mfu = f", MFU {watched['perf/mfu']:.0%}" if "perf/mfu" in watched else ""
        return Logged({**losses, **own, **watched, **slower}, text, f"loss {loss:.3f}, {speed:,.0f} tok/s{mfu}", slow)

    def evaluate(self, step: int) -> Values:
        if self.heldout is None:
            return self.measure(step)
        if step not in self._evaluations:
            return {}
        with self.context.progress.during("held-out loss"), self.engine.as_agreed():
            result = self.heldout.by_channel(self.engine.module)
        self.results["after" if step else "before"] = result
        if self.config.final_by and step in self._exports.values():
            self.results[str(step)] = result
        channels = " ".join(f"{name} {loss.bpb:.3f}" for name, loss in result.items())
        print(f"step {step}/{self.config.steps}  held-out bits per byte: {channels}", flush=True)
        return {f"heldout/{kind}/{name}": value for name, loss in result.items()
                for kind, value in loss.model_dump().items()}

    def best(self) -> str:
        """Name the export that is the final one, and let its losses be those of the end."""
        _, *by = self.config.final_by.split("/", 2)  # kind and channel
        if not by:
            return list(self._exports)[-1]

        def loss(name: str) -> float:
            found = self.results[str(self._exports[name])]
            each = [getattr(found[one], by[0]) for one in by[1:] or found]
            return math.fsum(each) / len(each)

        best = min(self._exports, key=loss)
        self.results["after"] = self.results[str(self._exports[best])]
        print(f"{best} is the final export: its {self.config.final_by} is {loss(best):.4f}, that of the last one "
              f"{loss(list(self._exports)[-1]):.4f}", flush=True)
        return best

    def check(self, step: int, *, computes: bool) -> None:
        with self.engine.as_agreed():
            self._copies.check(step * self.config.global_batch_size, computes=computes)

    def export(self, step: int) -> bool:
        due = [name for name, at in self._exports.items() if at == step]
        for name in due:
            with self.context.progress.during("export"), self.engine.as_agreed():
                self.exporter.write(name, self.engine.module.model, step, step * self.size, self.engine.weights())
                self.engine.group.barrier()  # others wait for rank 0 here, and not where less patience is
        return bool(due)

    def state(self) -> dict[str, Any]:
        heldout = {when: {name: loss.model_dump() for name, loss in result.items()}
                   for when, result in self.results.items()}
        return {**self._losses.state(), **self._experts.state(), "heldout": heldout}

    def restore(self, saved: dict[str, Any]) -> None:
        self._losses.restore(saved)
        self._experts.restore(saved)
        self.results = {when: {name: ChannelLoss(**loss) for name, loss in result.items()}
                        for when, result in saved["heldout"].items()}
