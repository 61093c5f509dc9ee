"""Log-probabilities of answers under an engine's weights as they are, and under those that training starts from, which
are computed once and kept: no second model is in memory."""

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from argosy.core.step.contract import counted
from argosy.core.store.files import publish, temporary_of
from argosy.model.post.preferences.examples import Example
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
