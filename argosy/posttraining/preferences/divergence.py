"""The policy's divergence from its reference, as methods of single answers estimate it: over answers that are put to
the next prompt of a batch (Ethayarajh et al. 2024, section 4.2), which neither model has reason to prefer."""

from collections.abc import Callable, Sequence
from pathlib import Path

from torch import Tensor

from argosy.posttraining.preferences.examples import Example, Feedback
from argosy.posttraining.preferences.reference import kept_reference, score
from argosy.training.engines.base import Engine

FOLDER = "divergence"


class Divergence:
    """Estimates it for each update, from all examples of a batch, whatever number of processes shares them.

    Args:
        batches: numbers of the examples of each update.
        longest: tokens that a prompt with another's answer may have; the answer is cut.
        size: examples of a forward."""

    def __init__(self, engine: Engine, examples: Sequence[Example], batches: Sequence[Sequence[int]], longest: int,
                 size: int, out: Path, progress: Callable[[int, int], None]) -> None:
        self._engine, self._size = engine, size
        self._mismatched = [[_put(examples[at], examples[other], longest)
                             for at, other in zip(batch, [*batch[1:], batch[0]], strict=True)] for batch in batches]
        flat = [each for batch in self._mismatched for each in batch]
        self._reference = kept_reference(engine, flat, size, out, progress, FOLDER)

    def estimate(self, number: int) -> Tensor:
        """Return it for update `number`, (), nats an answer, never below 0; every process calls this."""
        batch = self._mismatched[number]
        reference = self._reference[number * len(batch) : (number + 1) * len(batch)]
        return (score(self._engine, batch, self._size) - reference).mean().clamp(min=0)


def _put(example: Example, other: Example, longest: int) -> Feedback:
    """Put the answer of `other` to the prompt of `example`; one token of it at least."""
    prompt, answer = example.prompt_ids, other.sides[0][len(other.prompt_ids) :]
    return Feedback(prompt, [*prompt, *answer][: max(longest, len(prompt) + 1)], good=False)
