"""Batches of prompts to answer: those that begin alike together, as few-shot prompts of one task do."""

import math
from collections.abc import Iterator, Sequence
from itertools import pairwise

from argosy.core.config.explain import grouped
from argosy.model.infer.plan import best_prefixes
from argosy.model.infer.rows import Tokens, common

Asked = tuple[Tokens, tuple[int, ...]]  # a prompt, and the seeds of its answers
SHARED = 32  # tokens of a common beginning from which on it is read once for a batch
_FEWEST = 4  # prompts of a beginning
_BATCH = 64  # work of one more batch, in tokens that are read
_STEP = 16  # work of one more step, which reads all weights for few rows, on a CPU


def batches_of(requests: Sequence[tuple[Tokens, int]], max_tokens: int, batch_tokens: int, *, sharing: bool,
               cpu: bool = False) -> list[tuple[Asked, ...]]:
    """Deal (prompt, seed) to batches, equal ones once; a prompt has all its seeds in one batch, and the prompts of a
    batch as many seeds each.

    A batch has at most `batch_tokens` (or one prompt), the `max_tokens` to come included, and where beginnings are
    shared (`sharing`), without them; on a CPU, also no more padding than another batch would cost."""
    padding = _BATCH + _STEP * max_tokens if cpu else math.inf
    seeds = grouped(dict.fromkeys(requests))
    by_count = grouped((len(each), prompt) for prompt, each in seeds.items())
    return [tuple((prompt, tuple(seeds[prompt])) for prompt in batch)
            for count, prompts in sorted(by_count.items())
            for group, shared in (_alike(prompts) if sharing else [(prompts, 0)])
            for batch in _in_batches(group, shared, count, max_tokens, batch_tokens, padding)]  # fmt: skip


def beginning(prompts: Sequence[Sequence[int]]) -> int:
    """Count the tokens that all prompts begin with, of each but its last."""
    each = [tuple(prompt) for prompt in prompts]
    return min(common(min(each), max(each)), min(map(len, each)) - 1)


def _alike(prompts: Sequence[Tokens]) -> Iterator[tuple[list[Tokens], int]]:
    """Yield prompts that begin alike with the length of their beginning, dealt so that most tokens are saved; last
    those that begin as few others do."""
    ordered = sorted(prompts)
    shared = [0, *(common(a, b) for a, b in pairwise(ordered))]

    def saves(low: int, high: int, _: int, tokens: int) -> float:
        return tokens * (high - low - 1) - _BATCH if tokens >= SHARED and high - low >= _FEWEST else 0.0

    left, at = list[Tokens](), 0
    for low, high, tokens in best_prefixes(shared, [len(prompt) - 1 for prompt in ordered], saves):
        yield ordered[low:high], tokens
        left, at = left + ordered[at:low], high
    if left := left + ordered[at:]:
        yield left, 0


def _in_batches(prompts: Sequence[Tokens], shared: int, count: int, max_tokens: int, batch_tokens: int,
                most: float) -> Iterator[list[Tokens]]:
    """Yield prompts of similar lengths, longest first, with `most` tokens of padding."""
    batch: list[Tokens] = []
    padding = 0
    for prompt in sorted(prompts, key=lambda each: (-len(each), each)):
        width = len(batch[0] if batch else prompt) - shared + max_tokens
        padding += len(batch[0]) - len(prompt) if batch else 0
        if batch and ((len(batch) + 1) * count * width > batch_tokens or padding > most):
            yield batch
            batch, padding = [], 0
        batch.append(prompt)
    if batch:
        yield batch
