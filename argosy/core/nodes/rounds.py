"""Rounds of a check: who exchanges with whom, and which process a round's readings convict.

A process with a fault is a suspect, and so are all of a pair that fails. Suspects are measured again, each with a
process that had none, and a second fault convicts (as DLRover's network check pairs nodes; Ant Group, 2023)."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median

ROUNDS = 3
SLOW = 2.0  # times the median, from which on a process or a link is slow
QUICK_S = 0.02  # exchanges below this are noise

Group = tuple[int, ...]


@dataclass(frozen=True)
class Reading:
    """The measurement of one process in one round."""

    name: str
    """host, with the number of its GPU"""
    product: float = 0.0
    """seconds of the matrix product"""
    right: bool = True
    """whether the product is"""
    exchange: float | None = None
    """seconds of the exchange; None: it failed, or had no partner"""
    error: str = ""
    """why there is no exchange, or no reading at all"""


@dataclass(frozen=True)
class Round:
    """Groups of one round, and what each process in them measured."""

    groups: tuple[Group, ...]
    readings: Mapping[int, Reading]


def first_groups(ranks: Sequence[int]) -> tuple[Group, ...]:
    """Pair neighbours; of an odd number the last three are one group."""
    pairs = [tuple(ranks[at : at + 2]) for at in range(0, len(ranks), 2)]
    if len(pairs) > 1 and len(pairs[-1]) == 1:
        pairs[-2:] = [pairs[-2] + pairs[-1]]
    return tuple(pairs)


def next_groups(rounds: Sequence[Round]) -> tuple[Group, ...]:
    """Pair each suspect with a process without a fault; () where nothing is left to find out."""
    guilty, doubtful = verdicts(rounds)
    good = [rank for rank in rounds[0].readings if rank not in guilty and rank not in doubtful]
    if len(rounds) >= ROUNDS or not good:
        return ()
    return tuple(zip(sorted(doubtful), good, strict=False))


def verdicts(rounds: Sequence[Round]) -> tuple[dict[int, str], dict[int, str]]:
    """Return, by rank, why some are bad, and why others are suspects that no round has cleared or convicted yet."""
    base = rounds[0]
    products = median(r.product for r in base.readings.values())
    exchanges = median([r.exchange for r in base.readings.values() if r.exchange is not None] or [0.0])
    found = [(each, {rank: _fault(each, rank, products, exchanges) for rank in each.readings}) for each in rounds]
    bad = {rank: fault for _, faults in found for rank, fault in faults.items() if fault and fault.startswith(_CERTAIN)}
    while True:
        counted = {rank: _counted(rank, found, bad) for rank in base.readings if rank not in bad}
        new = {rank: faults[-1] for rank, faults in counted.items() if len(faults) > 1}
        if not new:
            return bad, {rank: faults[-1] for rank, faults in counted.items() if faults}
        bad |= new


_CERTAIN = "wrong"


def _fault(of: Round, rank: int, product: float, exchange: float) -> str:
    """Say what a process did wrong in one round; "" for nothing."""
    reading = of.readings[rank]
    if not reading.right:
        return f"{_CERTAIN} result of a matrix product"
    if reading.product > SLOW * product:
        return f"its matrix product took {reading.product / product:.1f} times the median"
    partners = [other for group in of.groups if rank in group for other in group if other != rank]
    if partners and reading.exchange is None:
        names = " and ".join(of.readings[other].name for other in partners)
        return f"no exchange with {names}: {reading.error}"
    if reading.exchange is not None and reading.exchange > max(SLOW * exchange, QUICK_S):
        return f"its exchange took {reading.exchange / exchange:.1f} times the median"
    return ""


def _counted(rank: int, found: Iterable[tuple[Round, Mapping[int, str]]], bad: Mapping[int, str]) -> list[str]:
    """List the faults of a process since it was last without one, but those that a bad partner explains."""
    faults: list[str] = []
    for of, each in found:
        if rank not in each:
            continue
        partners = {other for group in of.groups if rank in group for other in group if other != rank}
        explained = bool(partners & bad.keys()) and "exchange" in each[rank]
        faults = faults if explained else [*faults, each[rank]] if each[rank] else []
    return faults
