"""Learning from preferences: the policy's updates over examples, under any engine; and log-probabilities of answers
under the weights that training starts from, which are computed once and kept: no second model is in memory."""

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import torch
from torch import Tensor

from argosy.core.config.explain import likely
from argosy.core.errors import InputError
from argosy.core.step.contract import counted
from argosy.core.store.files import publish, temporary_of
from argosy.model.post.config import PreferenceConfig
from argosy.model.post.preferences import PreferenceMethodConfig
from argosy.model.post.preferences.examples import Example, Feedback, channels_of
from argosy.model.post.preferences.objective import PreferenceLoss, about, labels, tensors
from argosy.model.post.stage import Evaluate, Stage, Trained
from argosy.model.train.config import TrainConfig
from argosy.model.train.decisions import Turn
from argosy.model.train.engines import make_engine
from argosy.model.train.engines.base import Engine
from argosy.model.train.engines.fitting import explained
from argosy.model.train.engines.parts import WholeModel
from argosy.model.train.loop import Loop
from argosy.model.train.optim import learning_rate
from argosy.model.train.updates import SHOWN, Measured, Suspect, Values

FOLDER = "reference"
_BLOCK = 4096  # answers that are kept together: what an interrupted run computes again at most


def score(engine: Engine, examples: Sequence[Example], size: int) -> Tensor:
    """Return the log-probability of each answer of the examples, one after the other, (answers,), float32.

    `size`: examples of a forward. The processes share the forwards, as many each, and each returns all."""
    group = engine.group
    order = sorted(range(len(examples)), key=lambda at: -max(map(len, examples[at].sides)))
    rows = [order[at : at + size] for at in range(0, len(order), size)]
    turns = [order[at : at + size * group.world] for at in range(0, len(order), size * group.world)]
    offsets = np.cumsum([0, *(len(example.sides) for example in examples)])
    found = torch.zeros(int(offsets[-1]), dtype=torch.float32, device=group.device)
    training = engine.module.training
    engine.module.eval()
    with torch.no_grad():
        for turn, _ in enumerate(counted(turns, len(order), "examples")):
            number = turn * group.world + group.rank
            row = rows[min(number, len(rows) - 1)]  # forwards may exchange weights: each process makes as many
            values = engine.module(*tensors([examples[at] for at in row], group.device, prompts=False))
            places = [place for at in row for place in range(int(offsets[at]), int(offsets[at + 1]))]
            if number < len(rows):
                found[torch.tensor(places, device=group.device)] = values.float()
    engine.module.train(training)
    return group.sum(found)


def kept_reference(engine: Engine, examples: Sequence[Example], size: int, out: Path, folder: str = FOLDER) -> Tensor:
    """Return `score` of all examples under the weights that training starts from, which the engine still has.

    What is kept below `out` from a run before is read; a block that is missing, or is of other tokens (its name has
    their digest), is computed."""
    blocks = [examples[at : at + _BLOCK // 2] for at in range(0, len(examples), _BLOCK // 2)]
    found: list[Tensor] = []
    for number, block in enumerate(counted(blocks, len(examples), "examples")):
        path = out / folder / f"{number:05d}-{_digest(block)}.npy"
        if not engine.group.agreed(path.is_file()):
            values = score(engine, block, size)
            if engine.group.rank == 0:
                path.parent.mkdir(parents=True, exist_ok=True)
                with temporary_of(path).open("wb") as file:
                    np.save(file, values.cpu().numpy())
                publish(temporary_of(path), path)
            engine.group.barrier()
        found.append(torch.from_numpy(np.load(path)))
    return torch.cat(found).to(engine.group.device)


def _digest(examples: Sequence[Example]) -> str:
    found = hashlib.sha256()
    for example in examples:
        for ids in example.sides:
            found.update(np.array([len(example.prompt_ids), len(ids), *ids], np.int64).tobytes())
    return found.hexdigest()[:12]


class Divergence:
    """Estimates the policy's divergence from its reference for each update, over answers that are put to another prompt
    of the batch (Ethayarajh et al. 2024, section 4.2), which neither model has reason to prefer; from all examples of a
    batch, whatever number of processes shares them.

    Args:
        batches: numbers of the examples of each update.
        longest: tokens that a prompt with another's answer may have; the answer is cut.
        size: examples of a forward."""

    def __init__(self, engine: Engine, examples: Sequence[Example], batches: Sequence[Sequence[int]], longest: int,
                 size: int, out: Path) -> None:
        self._engine, self._size = engine, size
        self._mismatched = [
            [_put(examples[at], examples[other], longest) for at, other in zip(batch, others, strict=True)]
            for batch, others in zip(batches, partners(examples, batches), strict=True)]
        flat = [each for batch in self._mismatched for each in batch]
        self._reference = kept_reference(engine, flat, size, out, "divergence")

    def estimate(self, number: int) -> Tensor:
        """Return it for update `number`, (), nats an answer, never below 0; every process calls this."""
        batch = self._mismatched[number]
        reference = self._reference[number * len(batch) : (number + 1) * len(batch)]
        return (score(self._engine, batch, self._size) - reference).mean().clamp(min=0)


def partners(examples: Sequence[Example], batches: Sequence[Sequence[int]]) -> list[list[int]]:
    """Return for each example of each batch the number of the one whose answer is put to its prompt: the next one of
    the batch with a different prompt; where the batch has none, the next one of all batches.

    Raises InputError: all examples have the same prompt."""
    order = [at for batch in batches for at in batch]
    numbers: dict[tuple[int, ...], int] = {}
    prompts = {at: numbers.setdefault(tuple(examples[at].prompt_ids), len(numbers)) for at in order}
    if len(numbers) < 2:
        raise InputError(f"the {len(order)} answers to learn from have one prompt, and the divergence is estimated "
                         "from answers to different ones: add answers to other prompts, or take pairs and method=dpo")
    anywhere = iter(_next_different(order, prompts))
    found: list[list[int]] = []
    for batch in batches:
        later = [next(anywhere) for _ in batch]
        found.append(_next_different(batch, prompts) if len({prompts[at] for at in batch}) > 1 else later)
    return found


def _next_different(order: Sequence[int], prompts: Mapping[int, int]) -> list[int]:
    found, size = [-1] * len(order), len(order)
    for place in reversed(range(2 * size)):  # twice, so that the end knows what the beginning has
        here, after = place % size, (place + 1) % size
        found[here] = order[after] if prompts[order[after]] != prompts[order[here]] else found[after]
    return found


def _put(example: Example, other: Example, longest: int) -> Feedback:
    """Put the answer of `other` to the prompt of `example`; one token of it at least."""
    prompt, answer = example.prompt_ids, other.sides[0][len(other.prompt_ids) :]
    return Feedback(prompt, [*prompt, *answer][: max(longest, len(prompt) + 1)], good=False)


Part = tuple[Any, ...]
E = TypeVar("E", bound=Example)


@dataclass(frozen=True)
class Learner:
    """Updates of an engine over examples, in the order of training.

    Attributes:
        names: what the module's sums are of, by channel, the number of examples aside, which comes last.
        evaluate: returns held-out results of a model."""

    stage: Stage[PreferenceConfig]
    engine: Engine
    phase: TrainConfig
    examples: Sequence[Example]
    names: tuple[str, ...]
    evaluate: Evaluate

    @property
    def channels(self) -> tuple[str, ...]:
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

        def update(turn: Turn) -> Values:
            number = turn.batch % len(batches)  # data that are passed over are replaced by the first ones
            batch = batches[number]
            own = batch[group.rank :: group.world]
            micro = self.phase.micro_batch
            cut = [own[at : at + micro] for at in range(0, len(own), micro)]
            rate = turn.rate * learning_rate(self.phase, turn.step)
            total = sum(weights[self.examples[at].channel] for at in batch)
            sums, norm = self.engine.update(parts(number, cut), total, rate)
            return {"train/lr": rate, **self.engine.sizes(norm), **self._named(group.sum(sums))}

        tokens = [sum(len(ids) for at in batch for ids in self.examples[at].sides) for batch in batches]

        def suspects(batch: int) -> list[Suspect]:
            tokenizer, chosen = self.stage.source.tokenizer, [self.examples[at] for at in batches[batch % len(batches)]]
            return [{"channel": each.channel, "text": tokenizer.decode(each.prompt_ids)[:SHOWN]} for each in chosen]

        self.engine.module.train()
        point = self.stage.during(self.evaluate, self.phase, self.engine, whole, tokens)
        Loop(self.phase, self.stage.context, self.engine, Measured(update, evaluate=point, suspects=suspects)).run()
        return Trained(len(batches), sum(tokens), whole.refresh())

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


def learn(stage: Stage[PreferenceMethodConfig], model: Any, examples: Sequence[Example], evaluate: Evaluate) -> Trained:
    """Train the policy `model` on pairs or single answers by the config's method; `evaluate` uses held-out ones."""
    config, method = stage.config, stage.config.chosen
    examples, batches, phase = plan(config, examples)
    channels = len(channels_of(examples))

    def wrap(model: Any) -> PreferenceLoss:
        return PreferenceLoss(model, method, channels, *row_settings(phase, examples))

    with explained(phase, model, stage.group):
        engine = make_engine(model, 0, phase, stage.group, wrap)
        whole = WholeModel(engine, stage.model)
        learner = Learner(stage, engine, phase, examples, ("loss", "accuracy", "margin"), evaluate)
        kept, longest = (phase.micro_batch, stage.context.out), config.max_length or stage.source.context
        with stage.context.progress.during("reference"):
            reference = kept_reference(engine, examples, *kept) if method.reference else None
            divergence = Divergence(engine, examples, batches, longest, *kept) if method.single else None
        starts = [0, *accumulate(len(example.sides) for example in examples)]  # of each example's answers
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
