"""Batches of prompts to answer: those that begin alike together, as few-shot prompts of one task do."""

from collections.abc import Iterator, Sequence

from argosy.model.infer.rows import Tokens, common

Asked = tuple[Tokens, tuple[int, ...]]  # a prompt, and the seeds of its answers
SHARED = 32  # tokens of a common beginning from which on it is read once for a batch
_FEWEST = 4  # prompts of a beginning


def batches_of(
    requests: Sequence[tuple[Tokens, int]], max_tokens: int, batch_tokens: int, *, sharing: bool
) -> list[tuple[Asked, ...]]:
    """Deal (prompt, seed) to batches, equal ones once; a prompt has all its seeds in one batch, and the prompts of a
    batch as many seeds each.

    A batch has at most `batch_tokens` (or one prompt), the `max_tokens` to come included, and where beginnings are
    shared (`sharing`), without them."""
    seeds: dict[Tokens, list[int]] = {}
    for prompt, seed in dict.fromkeys(requests):
        seeds.setdefault(prompt, []).append(seed)
    by_count: dict[int, list[Tokens]] = {}
    for prompt, each in seeds.items():
        by_count.setdefault(len(each), []).append(prompt)
    return [tuple((prompt, tuple(seeds[prompt])) for prompt in batch)
            for count, prompts in sorted(by_count.items())
            for group, shared in (_alike(prompts) if sharing else [(prompts, 0)])
            for batch in _in_batches(group, shared, count, max_tokens, batch_tokens)]  # fmt: skip


def beginning(prompts: Sequence[Sequence[int]]) -> int:
    """Count the tokens that all prompts begin with, of each but its last."""
    each = [tuple(prompt) for prompt in prompts]
    return min(common(min(each), max(each)), min(map(len, each)) - 1)


def _alike(prompts: Sequence[Tokens]) -> Iterator[tuple[list[Tokens], int]]:
    """Yield prompts that begin alike with the length of their beginning; last those that begin as few others do."""
    groups: list[list[Tokens]] = []
    shared = 0
    for prompt in sorted(prompts):
        same = min(shared, len(prompt) - 1, common(groups[-1][0], prompt)) if groups else 0
        if groups and len(groups[-1]) == 1:
            same = min(len(groups[-1][0]) - 1, len(prompt) - 1, common(groups[-1][0], prompt))
        if same >= SHARED and (len(groups[-1]) == 1 or 2 * same >= shared):
            groups[-1].append(prompt)
            shared = same
        else:
            groups.append([prompt])
            shared = 0
    left = [prompt for group in groups if len(group) < _FEWEST for prompt in group]
    yield from ((group, beginning(group)) for group in groups if len(group) >= _FEWEST)
    if left:
        yield left, 0


def _in_batches(
    prompts: Sequence[Tokens], shared: int, count: int, max_tokens: int, batch_tokens: int
) -> Iterator[list[Tokens]]:
    """Yield prompts of similar lengths, longest first."""
    batch: list[Tokens] = []
    for prompt in sorted(prompts, key=lambda each: (-len(each), each)):
        width = len(batch[0] if batch else prompt) - shared + max_tokens
        if batch and (len(batch) + 1) * count * width > batch_tokens:
            yield batch
            batch = []
        batch.append(prompt)
    if batch:
        yield batch
