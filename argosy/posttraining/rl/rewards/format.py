"""1 for an answer in the format that was asked for, right or wrong, else 0."""

import json
from collections.abc import Sequence

from argosy.posttraining.rl.rewards import Sample


def reward(samples: Sequence[Sample]) -> list[float]:
    """Return 1.0 or 0.0 for each sample."""
    return [float(in_format(sample)) for sample in samples]


def in_format(sample: Sample) -> bool:
    """Tell whether it is a label alone (letter), an object with a string "answer" (json), or one line (text)."""
    if not sample.ended or not sample.text:
        return False
    if sample.prompt.format == "json":
        try:
            return isinstance(json.loads(sample.text)["answer"], str)
        except (ValueError, TypeError, KeyError, RecursionError):
            return False
    if sample.prompt.format == "letter":
        return len(sample.text) <= max(map(len, sample.prompt.accept))
    return "\n" not in sample.text
