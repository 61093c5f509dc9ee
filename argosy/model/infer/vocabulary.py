"""Logits of an output layer, and log-probabilities read of them, some positions and some of the vocabulary at a time.

On a CPU, passes over logits that have left its caches take a third as long as the products that make them, so each
block of the vocabulary is read while it is there (a running maximum and sum of exponentials: Milakov and Gimelshein,
Online normalizer calculation for softmax, 2018)."""

from collections.abc import Iterator
from itertools import chain
from typing import TYPE_CHECKING, Any

from argosy.model.infer.plan import LOGITS

if TYPE_CHECKING:
    import torch

Blocks = Iterator["torch.Tensor"]  # logits [position, some of the vocabulary], in the order of the vocabulary
Parts = Iterator[tuple[range, Blocks]]  # of which positions each is
_POSITIONS = 1024  # at a time: more make no product of matrices faster
_BLOCK = 2**20  # logits: 4 MiB as float32
_WHOLE = 2**23  # logits at a time where all of the vocabulary is needed: 32 MiB, which the allocator keeps


def parts(head: Any, hidden: "torch.Tensor", vocabulary: int) -> Parts:
    """Compute logits of all positions. `head`: the output layer. `hidden`: its input [position, hidden unit]."""
    cpu = hidden.device.type == "cpu"
    in_blocks = cpu and _is_plain(head)
    step = _POSITIONS if in_blocks else max(1, (_WHOLE if cpu else LOGITS) // vocabulary)
    for start in range(0, len(hidden), step):
        here = hidden[start : start + step]
        blocks = _blocks(head, here) if in_blocks else iter([head(here)])
        yield range(start, start + len(here)), blocks


def _is_plain(head: Any) -> bool:
    """Whether it does no more than torch's linear layer."""
    import torch

    return type(head) is torch.nn.Linear and not (head._forward_hooks or head._forward_pre_hooks)


def _blocks(head: Any, hidden: "torch.Tensor") -> Blocks:
    import torch

    width = max(1, min(_BLOCK // len(hidden), -(-len(head.weight) // 2)))  # two at least: a trial sees a border too
    for begin in range(0, len(head.weight), width):
        bias = None if head.bias is None else head.bias[begin : begin + width]
        yield torch.nn.functional.linear(hidden, head.weight[begin : begin + width], bias)


def log_softmax(blocks: Blocks) -> "torch.Tensor":
    """Compute log-probabilities [position, vocabulary], float32."""
    import torch

    return torch.log_softmax(torch.cat(list(blocks), dim=-1).float(), dim=-1)


def target_logprobs(blocks: Blocks, at: "torch.Tensor", token: "torch.Tensor") -> "tuple[torch.Tensor, torch.Tensor]":
    """Read the log-probability (nats) of each `token` at the position `at`, and whether it is the first of the
    likeliest. The logits are used up."""
    block = next(blocks)
    read = _Reading(at.to(block.device), token.to(block.device))
    for logits in chain([block], blocks):
        read.add(logits.float())
    return read.result()


class _Reading:
    """Numbers read of the blocks so far.

    Attributes:
        own: logit of each token; NaN of one that is not in the vocabulary.
        first: whether none before it in the vocabulary has as much, nor any of its block more.
        most: the highest logit of each position.
        total: sum of the exponentials of each position's logits, less `most`."""

    most: "torch.Tensor"
    total: "torch.Tensor"

    def __init__(self, at: "torch.Tensor", token: "torch.Tensor") -> None:
        import torch

        self._at, self._token, self._begin = at, token, 0
        self.own = torch.full((len(token),), torch.nan, device=token.device)
        self.first = torch.zeros(len(token), dtype=torch.bool, device=token.device)

    def add(self, values: "torch.Tensor") -> None:
        """Read the next block [position, some of the vocabulary], float32."""
        import torch

        high = values.amax(dim=-1).clamp_min(torch.finfo(torch.float32).min)  # a number, of a block of -inf too
        if not self._begin:
            self.most, self.total = high, torch.zeros_like(high)
        self._find(values, high)
        most = torch.maximum(self.most, high)
        self.total.mul_(torch.exp(self.most - most)).add_(values.sub_(most[:, None]).exp_().sum(dim=-1))
        self.most = most
        self._begin += values.shape[-1]

    def result(self) -> "tuple[torch.Tensor, torch.Tensor]":
        """Finish `target_logprobs`, when all blocks are read."""
        import torch

        most = self.most[self._at]
        return self.own - most - torch.log(self.total)[self._at], self.first & (self.own == most)

    def _find(self, values: "torch.Tensor", high: "torch.Tensor") -> None:
        column = self._token - self._begin
        here = ((column >= 0) & (column < values.shape[-1])).nonzero()[:, 0]
        row, column = self._at[here], column[here]
        own = self.own[here] = values[row, column]
        first = own == high[row]
        tied = first.nonzero()[:, 0]
        first[tied] = values[row[tied]].argmax(dim=-1) == column[tied]
        self.first[here] = first & (own > self.most[row]) if self._begin else first
