"""1 for an answer that ended by itself, 0 for one that was cut at the limit."""

from collections.abc import Sequence

from argosy.posttraining.rl.rewards import Sample


def reward(samples: Sequence[Sample]) -> list[float]:
    """Return 1.0 or 0.0 for each sample."""
    return [float(sample.ended) for sample in samples]
