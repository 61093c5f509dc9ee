"""Examples laid end to end, without padding: the tensors of a forward whose attention stays within each of them."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from argosy.corpus.tokens.windows import IGNORED


class Packed(NamedTuple):
    """Sequences laid end to end.

    Attributes:
        ids: (1, tokens), int64.
        targets: (1, tokens), int64: the token after each one where that counts, else IGNORED.
        documents: (1, tokens), int64: the number of each token's sequence.
        positions: (1, tokens), int64: of each token within its sequence."""

    ids: Tensor
    targets: Tensor
    documents: Tensor
    positions: Tensor


def lay_out(sequences: Sequence[Sequence[int]], counted: Sequence[Sequence[bool]], device: Any = "cpu") -> Packed:
    """Lay token sequences end to end.

    `counted`: of each token of each sequence, whether its log-probability counts; the first has none."""
    flat = [token for sequence in sequences for token in sequence]
    targets = [following if counts else IGNORED
               for sequence, marks in zip(sequences, counted, strict=True)
               for following, counts in zip([*sequence[1:], IGNORED], [*marks[1:], False], strict=True)]
    numbers = [number for number, sequence in enumerate(sequences) for _ in sequence]
    places = [place for sequence in sequences for place in range(len(sequence))]
    return Packed(*(torch.tensor(each, device=device).unsqueeze(0) for each in (flat, targets, numbers, places)))


def sum_by_sequence(values: Tensor, documents: Tensor, count: int) -> Tensor:
    """Return the sums over each sequence's tokens, (count,), of `values`, (tokens,), differentiable."""
    return values.new_zeros(count).index_add(0, documents.flatten(), values)
