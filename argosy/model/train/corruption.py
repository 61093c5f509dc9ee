"""Silent corruption: a processor that computes wrong, or memory that loses a bit. Processes that hold equal weights and
compute the same losses are compared now and then."""

from collections import Counter, defaultdict
from collections.abc import Sequence
from statistics import median
from typing import NamedTuple
from zlib import crc32

from argosy.core.step.ranks.diagnosis import RankFailed
from argosy.corpus.tokens.mixture import Samples
from argosy.model.train.engines.base import Engine
from argosy.model.train.heldout import Row, nats_of

_TOLERANCE = {"cpu": 0.0}  # of a loss that is computed again; on a GPU:
_OTHER = 1e-3
_ADVICE = ("run `argosy doctor nodes` on its node, and leave that out if it comes again; where machines are of several "
           "kinds, whose last digits differ, set check_every=0")
_WEIGHTS, _LOSSES, _AGAIN = ("other weights than processes with the same part", "other losses of the same samples",
                             "other losses of the same samples when it computes them again")


class Copy(NamedTuple):
    """State of a process: which part of the weights it holds, their checksum, the same losses twice."""

    part: int
    weights: int
    losses: list[float]
    again: list[float]


class Copies:
    """The weights that several processes hold copies of, and losses that all of them compute."""

    def __init__(self, engine: Engine, samples: Samples) -> None:
        self._engine, self._samples = engine, samples
        self._told = False

    def check(self, position: int, *, computes: bool) -> None:
        """Compare weights and, where it `computes`, the losses of the micro-batch at `position`, computed twice; every
        process calls it. Raises RankFailed: names the ranks that differ; a restart from a state may mend it."""
        engine, group = self._engine, self._engine.group
        sums = engine.checksums()
        losses = [self._losses(position) for _ in range(2)] if computes else [[], []]
        every = group.gathered(Copy(crc32(repr([*sums]).encode()), crc32(repr([*sums.values()]).encode()), *losses))
        if computes and not self._told and len({each.part for each in every}) == group.world > 1:
            self._told = True
            print("no process holds weights that another one has: their losses alone are compared", flush=True)
        again = [rank for rank, each in enumerate(every) if self._differ(each.losses, each.again)]
        far = self._far([each.losses for each in every])
        for what, wrong in ((_AGAIN, again), (_WEIGHTS, _odd(every)), (_LOSSES, far)):
            if wrong:
                names = f"rank {' or '.join(map(str, wrong))}"
                raise RankFailed(f"silent corruption: {names} has {what}: {_ADVICE}",
                                 {"rank": wrong[0] if len(wrong) == 1 else None, "ranks": wrong,
                                  "cause": "silent corruption", "advice": _ADVICE}, again=True)

    def _losses(self, position: int) -> list[float]:
        """Return the sum of the nats of each sample of a micro-batch, the same one in every process."""
        batch = self._samples.batch(range(position, position + self._engine.micro_batch.size))
        rows = [Row([*inputs, 0], targets)
                for inputs, targets in zip(batch.inputs.tolist(), batch.targets.tolist(), strict=True)]
        return [float(each) for _, nats in nats_of(self._engine.module, rows) for each in nats.double().sum(dim=1)]

    def _far(self, every: Sequence[Sequence[float]]) -> list[int]:
        """List the ranks whose losses are not those of most; both of two."""
        most = [median(losses) for losses in zip(*every, strict=True)]
        return [rank for rank, losses in enumerate(every) if self._differ(losses, most)]

    def _differ(self, some: Sequence[float], others: Sequence[float]) -> bool:
        most = _TOLERANCE.get(self._engine.group.device.type, _OTHER)
        return any(repr(one) != repr(other) and not abs(one - other) <= most * abs(other)  # a NaN is not corrupt
                   for one, other in zip(some, others, strict=True))


def _odd(every: Sequence[Copy]) -> list[int]:
    """List the ranks whose checksum is not that of most with the same part; all of these where none has most."""
    parts: dict[int, list[int]] = defaultdict(list)
    for rank, each in enumerate(every):
        parts[each.part].append(rank)
    found = []
    for ranks in parts.values():
        [(often, count)] = Counter(every[rank].weights for rank in ranks).most_common(1)
        split = 1 < len(ranks) >= 2 * count
        found += [rank for rank in ranks if split or every[rank].weights != often]
    return sorted(found)
