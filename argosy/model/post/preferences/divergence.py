"""The policy's divergence from its reference, as methods of single answers estimate it: over answers that are put to
another prompt of a batch (Ethayarajh et al. 2024, section 4.2), which neither model has reason to prefer."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from torch import Tensor

from argosy.core.errors import InputError
from argosy.model.post.preferences.examples import Example, Feedback
from argosy.model.post.preferences.reference import kept_reference, score
from argosy.model.train.engines.base import Engine

FOLDER = "divergence"


class Divergence:
    """Estimates it for each update, from all examples of a batch, whatever number of processes shares them.

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
        self._reference = kept_reference(engine, flat, size, out, FOLDER)

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
