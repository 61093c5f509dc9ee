"""A check that all processes of a job run together, through a store that the first of them serves."""

import json
import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import timedelta
from typing import Any

from argosy.core.errors import InputError, StepError
from argosy.core.nodes.bad import node_name
from argosy.core.nodes.rounds import Group, Reading, Round, first_groups, next_groups, verdicts

SIDE = {"cpu": 1024, "cuda": 8192}  # of the matrices
LEAST_S = 0.5  # that products are repeated for
MESSAGE = {"cpu": 1 << 22, "cuda": 1 << 26}  # bytes that each gives in an exchange


@dataclass(frozen=True)
class Place:
    """The place of this process in the job: its number, the number of all, and where the first one listens."""

    rank: int
    world: int
    host: str = "127.0.0.1"
    port: int = 29400
    local: int = 0
    served: bool = False
    """whether the launcher serves a store there already, as torchrun does"""
    each: int = 1
    """processes of a machine, which are not paired with each other but where there is one machine"""

    @classmethod
    def of_environment(cls, environment: Mapping[str, str]) -> "Place":
        """Read what torchrun, or Slurm's srun, sets. Raises InputError: a value is no number, or a job of several names
        no first host."""
        def number(*names: str, default: int) -> int:
            name = next((each for each in names if environment.get(each)), "")
            try:
                return int(environment[name]) if name else default
            except ValueError:
                raise InputError(f"{name} is {environment[name]!r}, where a whole number belongs") from None

        world = number("WORLD_SIZE", "SLURM_NTASKS", default=1)
        if world > 1 and not environment.get("MASTER_ADDR"):
            raise InputError("MASTER_ADDR is not set: name the host of process 0, which all others reach "
                             "(MASTER_ADDR=node1 MASTER_PORT=29400)")
        return cls(number("RANK", "SLURM_PROCID", default=0), world, environment.get("MASTER_ADDR", "127.0.0.1"),
                   number("MASTER_PORT", default=29400), number("LOCAL_RANK", "SLURM_LOCALID", default=0),
                   environment.get("TORCHELASTIC_USE_AGENT_STORE") == "True", number("LOCAL_WORLD_SIZE", default=1))


@dataclass(frozen=True)
class Verdict:
    """The outcome, the same on each process."""

    bad: dict[int, str]
    suspects: dict[int, str]
    """processes for whom no good partner was left"""
    readings: dict[int, Reading]
    rounds: int
    skew: dict[int, float] = field(default_factory=dict)
    """seconds that clocks are ahead of the first process's, with the time of a message in them"""


class BadRanks(StepError):
    """The ranks of a step that a check found bad: `about` has why, by rank; none where it cannot tell which."""

    def __init__(self, verdict: Verdict) -> None:
        said = [_in_words(verdict, *each) for each in sorted((verdict.bad or verdict.suspects).items())]
        super().__init__(f"the check before the step found {'; '.join(said)}" + (
            "" if verdict.bad else ": one of them is bad, and no good rank was left to tell which"))
        measured = {rank: {"product": each.product, "exchange": each.exchange} for rank in verdict.bad
                    if (each := verdict.readings.get(rank))}
        self.about = {
            "cause": "node", "bad": verdict.bad, "rank": min(verdict.bad, default=None), "measured": measured,
            "advice": "replace the machine, or set resources.STAGE.min_nodes (on one node min_processes) to go on "
                      "without it; preflight=off checks nothing"}


def _in_words(verdict: Verdict, rank: int, why: str) -> str:
    reading = verdict.readings.get(rank)
    link = f", exchange {reading.exchange:.3f} s" if reading and reading.exchange else ""
    return f"rank {rank}" + (f" on {reading.name}" if reading else "") + f": {why}" + (
        f" (product {reading.product:.3f} s{link})" if reading and reading.product else "")


def preflight(wait: float) -> None:
    """Check the ranks of a step together, from each of them. Raises BadRanks: some are bad, or not cleared."""
    import torch

    place, began = Place.of_environment(os.environ), time.monotonic()
    verdict = check(place, wait)
    torch.accelerator.empty_cache()
    print(f"{place.world} ranks checked in {time.monotonic() - began:.1f} s, {verdict.rounds} rounds", flush=True)
    if verdict.bad or verdict.suspects:
        raise BadRanks(verdict)


def check(place: Place, wait: float = 60.0, patience: float = 30.0) -> Verdict:
    """Measure all processes together. A process that does not arrive within `wait` seconds is bad, as is one that gives
    no answer; an exchange has `patience` seconds. Raises StepError: the first process cannot be reached."""
    from torch.distributed import PrefixStore, TCPStore  # type: ignore[attr-defined]

    try:
        base = TCPStore(place.host, place.port, is_master=place.rank == 0 and not place.served, wait_for_workers=False,
                        timeout=timedelta(seconds=wait))
    except Exception as error:
        raise StepError(f"process {place.rank} on {node_name()} cannot reach {place.host}:{place.port}, where "
                        f"process 0 listens: {str(error).splitlines()[0]}") from error
    store = PrefixStore("argosy-nodes", base)
    store.set(f"here/{place.rank}", _name(place))
    leader = _Leader(store, place, wait, patience) if place.rank == 0 else None
    most = 4 * (wait + patience)  # of a whole round, until the first process must have spoken
    number = 0
    while True:
        if leader:
            leader.lead(number)
        said = json.loads(_get(store, f"groups/{number}", most))
        if number == 0:
            store.set(f"clock/{place.rank}", str(time.time() - said["clock"]))
        groups = [tuple(group) for group in said["groups"]]
        if not groups:
            break
        mine = next((group for group in groups if place.rank in group), None)
        if mine is not None:
            reading = _measure(place, mine, PrefixStore(f"{number}/{mine[0]}", store), patience)
            store.set(f"reading/{number}/{place.rank}", json.dumps(asdict(reading)))
        if leader:
            leader.collect(number, groups)
        number += 1
    verdict = _read(json.loads(_get(store, "verdict", most)))
    store.set(f"done/{place.rank}", "")
    if leader:
        leader.wait_for_all()
    return verdict


class _Leader:
    """The part of process 0: it forms groups, gathers readings and judges."""

    def __init__(self, store: Any, place: Place, wait: float, patience: float) -> None:
        self.store, self.wait, self.patience = store, wait, patience
        deadline, each = time.monotonic() + wait, place.each
        ranks = sorted(range(place.world), key=lambda rank: (rank % each, rank))  # neighbours are of two machines
        self.there = [rank for rank in ranks if _has(store, f"here/{rank}", deadline - time.monotonic())]
        self.absent = {rank: f"did not arrive within {wait:g} s" for rank in ranks if rank not in self.there}
        self.rounds: list[Round] = []

    def lead(self, number: int) -> None:
        groups = first_groups(self.there) if number == 0 else next_groups(self.rounds)
        if not groups:
            bad, suspects = verdicts(self.rounds)
            readings = {rank: asdict(reading) for rank, reading in self.rounds[0].readings.items()}
            skew = {rank: float(self.store.get(f"clock/{rank}")) for rank in self.there
                    if _has(self.store, f"clock/{rank}", 0)}
            self.store.set("verdict", json.dumps({"bad": self.absent | bad, "suspects": suspects, "readings": readings,
                                                  "rounds": len(self.rounds), "skew": skew}))
        self.store.set(f"groups/{number}", json.dumps({"groups": groups, "clock": time.time()}))

    def collect(self, number: int, groups: Sequence[Group]) -> None:
        deadline = time.monotonic() + 2 * self.patience + self.wait
        readings = {rank: self._reading(number, rank, deadline) for group in groups for rank in group}
        self.rounds.append(Round(tuple(groups), readings))

    def _reading(self, number: int, rank: int, deadline: float) -> Reading:
        key = f"reading/{number}/{rank}"
        if _has(self.store, key, deadline - time.monotonic()):
            return Reading(**json.loads(self.store.get(key)))
        return Reading(self.store.get(f"here/{rank}").decode(), error="it gives no answer")

    def wait_for_all(self) -> None:
        """Serve the store until everyone has the verdict, for `patience` seconds at most."""
        deadline = time.monotonic() + self.patience
        for rank in self.there:
            _has(self.store, f"done/{rank}", deadline - time.monotonic())


def _name(place: Place) -> str:
    return f"{node_name()}/gpu{place.local}" if _device() == "cuda" else node_name()


def _device() -> str:
    import torch

    return "cuda" if torch.cuda.is_available() else "cpu"


def _has(store: Any, key: str, seconds: float) -> bool:
    try:
        store.wait([key], timedelta(seconds=max(seconds, 0.01)))
    except Exception:  # torch raises DistStoreError or RuntimeError, by version
        return False
    return True


def _get(store: Any, key: str, seconds: float) -> str:
    if not _has(store, key, seconds):
        raise StepError(f"process 0 said nothing for {seconds:g} s: it has ended, or cannot be reached any more")
    return str(store.get(key).decode())


def _measure(place: Place, group: Group, store: Any, patience: float) -> Reading:
    """Time a product, then an exchange with the others of the group."""
    seconds, right = product(place.local)
    if len(group) == 1:
        return Reading(_name(place), seconds, right)
    try:
        taken = exchange(store, group.index(place.rank), len(group), patience, place.local)
    except Exception as error:  # of torch's back ends, by version
        lines = str(error).splitlines()
        return Reading(_name(place), seconds, right, error=lines[0] if lines else type(error).__name__)
    return Reading(_name(place), seconds, right, taken)


def product(local: int = 0) -> tuple[float, bool]:
    """Multiply matrices of small whole numbers, whose product is exact in float32; returns the fastest of the products'
    seconds, and whether it agrees with the factors (Freivalds 1979: C v = A (B v), in int64)."""
    import torch

    kind = _device()
    where = torch.device(kind, local) if kind == "cuda" else torch.device(kind)
    generator = torch.Generator().manual_seed(0)
    a, b = (torch.randint(-3, 4, (SIDE[kind], SIDE[kind]), generator=generator) for _ in range(2))
    v = torch.randint(1, 4, (SIDE[kind],), generator=generator)
    x, y = a.to(where, torch.float32), b.to(where, torch.float32)
    expected, best, right, begun = a @ (b @ v), float("inf"), True, time.monotonic()
    while time.monotonic() - begun < LEAST_S or best == float("inf"):
        start = time.perf_counter()
        c = x @ y
        if kind == "cuda":
            torch.cuda.synchronize(where)
        best = min(best, time.perf_counter() - start)
        right = right and torch.equal(c.to("cpu", torch.int64) @ v, expected)
    return best, right


def exchange(store: Any, rank: int, size: int, patience: float, local: int = 0) -> float:
    """Gather a message from each of a group, three times; returns the seconds of the fastest. Raises StepError: a
    message arrived changed; what torch raises where the others are not reached."""
    import torch
    from torch import distributed

    kind, limit = _device(), timedelta(seconds=patience)
    if kind == "cuda":
        options = distributed.ProcessGroupNCCL.Options()
        options._timeout = limit
        group: Any = distributed.ProcessGroupNCCL(store, rank, size, options)
        where = torch.device("cuda", local)
    else:
        group, where = distributed.ProcessGroupGloo(store, rank, size, limit), torch.device("cpu")
    mine = torch.full((MESSAGE[kind] // 4,), rank + 1, dtype=torch.int32, device=where)
    others = [torch.zeros_like(mine) for _ in range(size)]
    best = float("inf")
    for _ in range(3):
        start = time.perf_counter()
        group.allgather([others], [mine]).wait(limit)
        if kind == "cuda":
            torch.cuda.synchronize(where)
        best = min(best, time.perf_counter() - start)
        if any(bool((each != number + 1).any()) for number, each in enumerate(others)):
            raise StepError("a message arrived changed")
    return best


def _read(record: Mapping[str, Any]) -> Verdict:
    bad, suspects, readings, skew = ({int(rank): value for rank, value in record[name].items()}
                                     for name in ("bad", "suspects", "readings", "skew"))
    return Verdict(bad, suspects, {rank: Reading(**each) for rank, each in readings.items()}, record["rounds"], skew)
