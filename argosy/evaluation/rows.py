"""Rows that go through a model: a context and the continuations that branch off it, as padded tensors.

Each token of a row attends to the context and to its own branch alone (a 4D mask, as in tree attention, Miao et al.,
SpecInfer, 2023), and positions restart after the context.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    import torch

Tokens = tuple[int, ...]


@dataclass
class Row:
    """A context and the continuations (with the requests that asked for each) that branch off it."""

    context: Tokens
    branches: dict[Tokens, list[int]]

    @property
    def keep(self) -> int:
        """Positions whose logits are needed: the context's last and all of the branches but their last tokens."""
        return 1 + sum(len(branch) - 1 for branch in self.branches)

    @property
    def length(self) -> int:
        """Tokens that go through the model."""
        return len(self.context) + self.keep - 1


def model_inputs(rows: Sequence[Row], dtype: torch.dtype, device: torch.device) -> dict[str, torch.Tensor | None]:
    """input_ids, position_ids and attention_mask of rows, padded at their left."""
    import torch

    width = max(row.length for row in rows)
    tokens = np.zeros((len(rows), width), dtype=np.int64)
    positions = np.zeros((len(rows), width), dtype=np.int64)
    visible = np.zeros((len(rows), width), dtype=np.int64)
    for line, row in enumerate(rows):
        start = width - row.length
        tokens[line, start:] = [*row.context, *(token for branch in row.branches for token in branch[:-1])]
        visible[line, start:] = 1
        positions[line, start:] = _positions(row)
    mask: torch.Tensor | None = torch.from_numpy(visible).to(device)
    if any(len(row.branches) > 1 and row.keep > 1 for row in rows):
        mask = _tree_mask(rows, width, dtype, device)
    elif visible.all():
        mask = None
    ids, places = torch.from_numpy(tokens).to(device), torch.from_numpy(positions).to(device)
    return {"input_ids": ids, "position_ids": places, "attention_mask": mask}


def _positions(row: Row) -> list[int]:
    after = len(row.context)
    return [*range(after), *(after + i for branch in row.branches for i in range(len(branch) - 1))]


def _tree_mask(rows: Sequence[Row], width: int, dtype: torch.dtype, device: torch.device) -> torch.Tensor:
    """Additive mask [row, 1, width, width]: causal, and closed between the branches of a row."""
    import torch

    allowed = np.tril(np.ones((len(rows), width, width), dtype=bool))
    for line, row in enumerate(rows):
        start = width - row.length
        allowed[line, :, :start] = False
        branch_start = start + len(row.context)
        first = branch_start
        for branch in row.branches:
            end = branch_start + len(branch) - 1
            allowed[line, branch_start:end, first:branch_start] = False
            branch_start = end
    mask = torch.zeros(allowed.shape, dtype=dtype)
    mask.masked_fill_(~torch.from_numpy(allowed), torch.finfo(dtype).min)
    return mask[:, None].to(device)
