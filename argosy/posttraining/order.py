"""In which order examples are learnt from."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence

POOL = 16  # batches that are sorted by length together


def training_order(
    lengths: Sequence[int], batch_size: int, epochs: float, seed: int, max_steps: int = 0
) -> list[int]:
    """Indices of the examples in the order of training, over all epochs: a pure function of its arguments.

    `max_steps` above 0 overrides `epochs`: as many passes, each shuffled anew, as so many batches take.

    The whole order is known before the first step, so a resumed run skips to its place and reads the same
    batches. Within pools of POOL batches of the shuffled data, examples are sorted by length, cut into batches
    and the batches shuffled: batches of near-equal lengths need little padding (Trainer's own length grouping
    draws from the global random state and cannot be resumed to the same bytes).

    Returns:
        max_steps * batch_size, or ceil(epochs * len(lengths)), indices. Each example comes once an epoch;
        fewer than `batch_size` of them, those that fill no batch, come at the beginning of the next one.
    """
    order: list[int] = []
    waiting: list[int] = []
    total = max_steps * batch_size or math.ceil(epochs * len(lengths))
    for epoch in range(math.ceil(total / len(lengths)) if lengths else 0):
        generator = random.Random(f"{seed}/{epoch}")
        stream = waiting + generator.sample(range(len(lengths)), len(lengths))
        full = len(stream) - len(stream) % batch_size
        stream, waiting = stream[:full], stream[full:]
        for start in range(0, full, POOL * batch_size):
            pool = sorted(stream[start : start + POOL * batch_size], key=lambda index: lengths[index])
            batches = [pool[at : at + batch_size] for at in range(0, len(pool), batch_size)]
            generator.shuffle(batches)
            order.extend(index for batch in batches for index in batch)
    return (order + waiting)[:total]
