"""Log-probabilities of answers under an engine's weights as they are, and under those that training starts from, which
are computed once and kept: no second model is in memory; the policy's divergence from those."""

import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from argosy.core.errors import InputError
from argosy.core.step.contract import counted
from argosy.core.store.files import publish, temporary_of
from argosy.model.post.preferences.examples import Example, Feedback
from argosy.model.post.preferences.objective import tensors
from argosy.model.train.engines.base import Engine

FOLDER = "reference"
_BLOCK = 4096  # answers that are kept together: what an interrupted run computes again at most


def score(engine: Engine, examples: Sequence[Example], size: int) -> Tensor:
    """Return the log-probability of each answer of the examples, one after the other, (answers,), float32.

    `size`: examples of a forward. The processes share the forwards, as many each, and each returns all."""
    group, order = engine.group, _by_length(examples)
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


def kept_reference(engine: Engine, examples: Sequence[Example], size: int, out: Path,
                   folder: str = FOLDER) -> Tensor:
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
                _write(path, values)
            engine.group.barrier()
        found.append(torch.from_numpy(np.load(path)))
    return torch.cat(found).to(engine.group.device)


def _write(path: Path, values: Tensor) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = temporary_of(path)
    with temporary.open("wb") as file:
        np.save(file, values.cpu().numpy())
    publish(temporary, path)


def _digest(examples: Sequence[Example]) -> str:
    found = hashlib.sha256()
    for example in examples:
        for ids in example.sides:
            found.update(np.array([len(example.prompt_ids), len(ids), *ids], np.int64).tobytes())
    return found.hexdigest()[:12]


def _by_length(examples: Sequence[Example]) -> list[int]:
    longest: list[Any] = [max(map(len, example.sides)) for example in examples]
    return sorted(range(len(examples)), key=lambda at: -longest[at])


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
    """Return for each of `order` the next one, after the last the first, with a different prompt."""
    found, size = [-1] * len(order), len(order)
    for place in reversed(range(2 * size)):  # twice, so that the end knows what the beginning has
        here, after = place % size, (place + 1) % size
        found[here] = order[after] if prompts[order[after]] != prompts[order[here]] else found[after]
    return found


def _put(example: Example, other: Example, longest: int) -> Feedback:
    """Put the answer of `other` to the prompt of `example`; one token of it at least."""
    prompt, answer = example.prompt_ids, other.sides[0][len(other.prompt_ids) :]
    return Feedback(prompt, [*prompt, *answer][: max(longest, len(prompt) + 1)], good=False)
