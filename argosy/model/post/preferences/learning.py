"""Learning from preferences: the policy's updates over examples, under any engine."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import torch
from torch import Tensor

from argosy.core.config.explain import likely
from argosy.core.errors import InputError
from argosy.model.post.config import PreferenceConfig
from argosy.model.post.preferences.config import PreferenceMethodConfig
from argosy.model.post.preferences.examples import Example, channels_of
from argosy.model.post.preferences.methods import make_method
from argosy.model.post.preferences.objective import PreferenceLoss, about, labels, tensors
from argosy.model.post.preferences.reference import Divergence, kept_reference
from argosy.model.post.stage import Stage, Trained
from argosy.model.train.config import TrainConfig
from argosy.model.train.engines import make_engine
from argosy.model.train.engines.base import Engine
from argosy.model.train.engines.fitting import explained
from argosy.model.train.engines.whole import WholeModel
from argosy.model.train.loop import Loop
from argosy.model.train.optim import learning_rate
from argosy.model.train.updates import Measured, Values

Part = tuple[Any, ...]
E = TypeVar("E", bound=Example)


@dataclass(frozen=True)
class Learner:
    """Updates of an engine over examples, in the order of training.

    Attributes:
        names: what the module's sums are of, by channel, the number of examples aside, which comes last."""

    stage: Stage[PreferenceConfig]
    engine: Engine
    phase: TrainConfig
    examples: Sequence[Example]
    names: tuple[str, ...]

    @property
    def channels(self) -> tuple[str, ...]:
        """Return the names of the examples' channels."""
        return channels_of(self.examples)

    @property
    def weights(self) -> list[float]:
        """Return the weight of each channel in the loss. Raises InputError: a weight is of no channel."""
        for name in (given := self.stage.config.loss_weights):
            if name not in self.channels:
                raise InputError(f"loss_weights.{name}: no example has this channel; {likely(name, self.channels)}")
        return [given.get(name, 1.0) for name in self.channels]

    def train(self, batches: Sequence[Sequence[int]], parts: Callable[[int, Sequence[Sequence[int]]], list[Part]],
              whole: WholeModel) -> Trained:
        """Take an update over each batch of examples, given by their numbers.

        `parts`: makes the arguments of the module's forwards in an update, one for each micro-batch of this process,
        given as the numbers of its examples."""
        weights, group = dict(zip(self.channels, self.weights, strict=True)), self.engine.group

        def update(number: int) -> Values:
            batch = batches[number]
            own = batch[group.rank :: group.world]
            micro = self.phase.micro_batch
            cut = [own[at : at + micro] for at in range(0, len(own), micro)]
            rate = learning_rate(self.phase, number)
            total = sum(weights[self.examples[at].channel] for at in batch)
            sums, norm = self.engine.update(parts(number, cut), total, rate)
            return {"train/lr": rate, "train/grad_norm": float(norm), **self._named(group.sum(sums))}

        self.engine.module.train()
        Loop(self.phase, self.stage.context, self.engine, Measured(update)).run()
        tokens = sum(len(ids) for batch in batches for at in batch for ids in self.examples[at].sides)
        return Trained(len(batches), tokens, whole.refresh())

    def _named(self, sums: Tensor) -> Values:
        """Return means over the examples of an update, and by channel where there are several."""
        table = sums.reshape(len(self.channels), len(self.names) + 1).tolist()
        rows = {"": [sum(column) for column in zip(*table, strict=True)]}
        if len(self.channels) > 1:
            rows |= {f"/{name}": row for name, row in zip(self.channels, table, strict=True)}
        return {f"train/{what}{name}": row[place] / row[-1] for name, row in rows.items() if row[-1]
                for place, what in enumerate(self.names)}


def plan(config: PreferenceConfig, examples: Sequence[E]) -> tuple[list[E], list[list[int]], TrainConfig]:
    """Return the examples that training comes to, the numbers of those of each update, and the phase."""
    batches = config.batches([max(map(len, example.sides)) for example in examples])
    used = sorted({at for batch in batches for at in batch})
    numbers = {at: number for number, at in enumerate(used)}
    chosen = [examples[at] for at in used]
    longest = max(len(ids) for example in chosen for ids in example.sides)
    phase = config.phase(len(batches), config.batch_size, longest)
    return chosen, [[numbers[at] for at in batch] for batch in batches], phase


def row_settings(phase: TrainConfig, examples: Sequence[Example]) -> tuple[torch.dtype, int, Any]:
    """Return the precision of a forward, the tokens of a row at most, and the attention."""
    tokens = phase.micro_batch * len(examples[0].sides) * phase.sequence_length
    return getattr(torch, phase.dtype), tokens, phase.attention


def learn(stage: Stage[PreferenceMethodConfig], model: Any, examples: Sequence[Example]) -> Trained:
    """Train the policy `model` on pairs, or on single answers, by the config's method."""
    config, method = stage.config, make_method(stage.config)
    examples, batches, phase = plan(config, examples)
    channels = len(channels_of(examples))

    def wrap(model: Any) -> PreferenceLoss:
        return PreferenceLoss(model, method, channels, *row_settings(phase, examples))

    with explained(phase, model, stage.group):
        engine = make_engine(model, 0, phase, stage.group, wrap)
        whole = WholeModel(engine, stage.model)
        learner = Learner(stage, engine, phase, examples, ("loss", "accuracy", "margin"))
        kept, longest = (phase.micro_batch, stage.context.out), config.max_length or stage.source.context
        with stage.context.progress.during("reference"):
            reference = kept_reference(engine, examples, *kept) if method.reference else None
            divergence = Divergence(engine, examples, batches, longest, *kept) if method.single else None
        starts = _starts(examples)
        device = engine.group.device

        def part(row: Sequence[int], usual: Tensor, shift: Tensor | None) -> Part:
            chosen = [examples[at] for at in row]
            places = [place for at in row for place in range(starts[at], starts[at + 1])]
            before = torch.zeros(len(places), device=device) if reference is None else reference[places]
            more = [] if shift is None else [labels(chosen, device), shift]
            return (*tensors(chosen, device, prompts=method.prompts), before,
                    *about(chosen, learner.channels, learner.weights, device), usual, *more)

        def parts(number: int, rows: Sequence[Sequence[int]]) -> list[Part]:
            shift = divergence.estimate(number) if divergence else None
            scored = [len(examples[at].sides[0]) - 1 for at in batches[number]]
            usual = torch.tensor(sum(scored) / len(scored), device=device)
            return [part(row, usual, shift) for row in rows]

        return learner.train(batches, parts, whole)


def _starts(examples: Sequence[Example]) -> list[int]:
    """Return the number of the first answer of each example, and of all."""
    found = [0]
    for example in examples:
        found.append(found[-1] + len(example.sides))
    return found
