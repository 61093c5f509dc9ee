"""1 for a right answer, else 0: one of the prompt's accepted strings, or a JSON object whose "answer" is one."""

import json
from collections.abc import Sequence

from argosy.posttraining.rl.rewards import Sample


def reward(samples: Sequence[Sample]) -> list[float]:
    """Return 1.0 or 0.0 for each sample."""
    return [float(is_right(sample)) for sample in samples]


def is_right(sample: Sample) -> bool:
    """Tell whether the answer is exactly one of those accepted, in the format of the prompt."""
    given: object = sample.text
    if sample.prompt.format == "json":
        try:
            given = json.loads(sample.text)["answer"]
        except (ValueError, TypeError, KeyError, RecursionError):
            return False
    return given in sample.prompt.accept
