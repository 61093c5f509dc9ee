"""Rounds of a step's ranks: who takes part in each, what follows a failure, and when the step gives up."""

import os
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

from argosy.core.config.explain import resized
from argosy.core.config.schema import ParallelConfig
from argosy.core.errors import ArgosyError, InputError, StepError
from argosy.core.nodes.bad import node_name, note_bad
from argosy.core.step.contract import Step
from argosy.core.step.machine import answering_gpus, usable_gpus
from argosy.core.step.ranks import hang_timeout, rank_timeout
from argosy.core.step.ranks.diagnosis import GroupEnd, RankFailed, first_failure
from argosy.core.step.ranks.group import Place, run_group
from argosy.core.step.ranks.launcher import EXTERNAL, Launcher
from argosy.core.store.files import read_record, remove_temporaries
from argosy.core.store.lease import seconds_from
from argosy.core.store.step_files import PROGRESS

# Causes after which the machines are checked again; "" is none, at the start
_OF_HARDWARE = {"", "ECC", "NVLink", "Xid", "CUDA", "NCCL", "node", "membership"}
# Causes by which a GPU is bad at once, and those that make it so when they come twice; "" is a signal
_OF_GPU = {"ECC", "Xid"}
_OF_PLACE = {*_OF_GPU, "", "NVLink", "CUDA", "killed", "frozen", "hang", "silent corruption"}
GPU_WAIT = "ARGOSY_GPU_WAIT"
Note = Callable[[str, dict[str, Any]], None]


class Alone:
    """The ranks of a step on one node, in this process: each has a place, and with it a GPU if there are any. It does
    with places what a launcher does with nodes; where it needs fewer (`least`) than all, it asks their GPUs."""

    def __init__(self, step: str, local: int, least: int) -> None:
        self._step, self._places, self.hosts = step, range(local), [node_name()] * local
        self._taking: Sequence[int] = ()  # places of the round, in the order of their ranks
        self._waits = dict.fromkeys(self._places, seconds_from(GPU_WAIT, 300) / 2)  # doubled when one is left out
        self._due = dict[int, float]()  # places that are left out, and when each is tried again
        given = usable_gpus() if least < local else ()
        self._gpus = [*given, *[""] * (local - len(given))] if given else []  # of the places, then a server's
        names = answering_gpus(self._gpus)
        self._gpus = [name or gpu for name, gpu in zip(names, self._gpus, strict=True)] if any(names) else []
        self._put_off([place for place in self._places if self._gpus and not names[place]], 2)

    def gather(self, least: int) -> int:
        """Count the places that can be used. Raises StepError: they are too few."""
        self._taking = self._there()
        if (there := len(self._taking)) < least:
            raise StepError(f"{there} of {len(self._places)} GPUs answer, and {least} are needed (min_processes): see "
                            "nvidia-smi and the kernel's log")
        return there

    def silent(self) -> list[int]:
        """List the ranks of the last round whose GPUs do not answer."""
        good = self._answering(self._taking)
        return [rank for rank, place in enumerate(self._taking) if place not in good]

    def leave_out(self, ranks: Iterable[int]) -> int:
        """Have rounds without the places of these ranks of the last one for a while; returns how many are left."""
        self._put_off({self._taking[rank] for rank in ranks}, 2)
        return len(self._places) - len(self._due)

    def run(self, task: dict[str, Any], count: int, grows: Callable[[int], bool]) -> tuple[GroupEnd, bool]:
        """Run a round in `count` of the places that were counted, until `grows` tells that more are of use."""
        self._taking = self._taking[:count]
        gpus = [gpu for place, gpu in enumerate(self._gpus) if place in self._taking or place not in self._places]
        place = Place(local=count, gpus=tuple(gpus))
        end = run_group(self._step, place, task, lambda: "save" if grows(len(self._there())) else "")
        return end, end.only_saved() and grows(len(self._there()))

    def close(self) -> None:
        return

    def _put_off(self, places: Iterable[int], times: int = 1) -> None:
        for place in places:
            self._waits[place] *= times
            self._due[place] = time.monotonic() + self._waits[place]

    def _answering(self, places: Sequence[int]) -> list[int]:
        names = answering_gpus([self._gpus[place] for place in places]) if self._gpus else ["a CPU"] * len(places)
        return [place for place, name in zip(places, names, strict=True) if name]

    def _there(self) -> list[int]:
        """List the places that can be used, with those that were left out and answer again."""
        due = [place for place, when in self._due.items() if when <= time.monotonic()]
        self._put_off(due)
        for place in self._answering(due):
            del self._due[place]
        return [place for place in self._places if place not in self._due]


def run_ranks(step: Step[Any], config: ParallelConfig, out: Path, lease: str, note: Note) -> dict[str, Any]:
    """Run `step` as `config.processes` ranks; returns `outputs` and `computed_with` of rank 0, and what the
    largest node `used`, as GroupEnd has it.

    What a failure leaves starts again from the newest state, `config.restarts` times without progress between, and with
    fewer nodes, down to `config.min_nodes`, where some do not come back, or on one node with fewer processes, down to
    `config.min_processes`, where GPUs fail. `lease`: token of this process's lease on `out`. The ranks renew it too,
    since they may work on while this process is suspended, and stop when another has it. `note` records each restart.
    Raises InputError, StepError: names the rank that failed first; Stopped: a signal arrived; the ranks have ended."""
    rank_timeout(), hang_timeout()  # refuses wrong values before anything starts
    local = config.processes // config.nodes
    groups = (Launcher(step.name, out, config.nodes, local) if config.nodes > 1
              else Alone(step.name, local, config.min_processes or local))
    try:
        return _Rounds(step, config, out, lease, groups, note).run()
    finally:
        groups.close()


class _Rounds:
    """The rounds of one attempt at a step."""

    def __init__(self, step: Step[Any], config: ParallelConfig, out: Path, lease: str, groups: Alone | Launcher,
                 note: Note) -> None:
        self._step, self._config, self._out, self._lease = step, config, out, lease
        self._groups, self._note = groups, note
        self._tries, self._farthest, self._cause = 0, -1.0, ""
        self._used, self._grown = (0.0, 0.0), False  # whether the ranks of the round are to make way for more
        self._unit = "nodes" if config.nodes > 1 else "processes"
        self._all = int(getattr(config, self._unit))
        self._least = int(getattr(config, f"min_{self._unit}")) or self._all
        self._lost: int | None = None  # the rank to blame for the last failure

    def run(self) -> dict[str, Any]:
        """Run rounds until one ends well. Raises what the last one failed by."""
        while True:
            count, config = self._fitting(self._groups.gather(self._least))
            task = {"config": config.model_dump(mode="json"), "out": str(self._out), "lease": self._lease,
                    "cause": self._cause, "preflight": self._checks(config)}
            self._grown = False
            end, grows = self._groups.run(task, count, partial(self._grows, count))
            peaks, cpu_s = zip(*end.used.values(), (0.0, 0.0), strict=True)
            self._used = max(self._used[0], *peaks), self._used[1] + max(cpu_s)
            if end.complete():
                return end.ends[0] | {"used": self._used}
            if grows:
                self._lost = None
                places = self._unit.replace("processes", "places")
                self._restart(f"other {places} are there than before: the ranks start on them", {"cause": "membership"})
            else:
                self._treat(first_failure(end, self._out))
            remove_temporaries(self._out)

    def _grows(self, count: int, there: int) -> bool:
        """Tell whether the layout takes more than `count`, of those there, from when on work was left for them; a place
        waits for progress without it."""
        if not self._grown and there > count and not 0 < self._progress("total") <= (done := self._progress("done")):
            waits = self._unit == "processes" and done <= self._farthest
            self._grown = not waits and self._fitting(there)[0] > count
        return self._grown

    def _progress(self, name: str) -> float:
        return float(read_record(self._out / PROGRESS).get(name, 0.0))

    def _checks(self, config: ParallelConfig) -> bool:
        """Tell whether the machines are checked first: as an attempt begins, or where one may have failed or is new."""
        several = EXTERNAL in os.environ or bool(usable_gpus())  # on a CPU all ranks of a laptop have the same machine
        wanted = config.preflight == "on" or (config.preflight == "auto" and several)
        return wanted and self._cause in _OF_HARDWARE

    def _restart(self, why: str, about: dict[str, Any]) -> None:
        self._cause = str(about.get("cause", "error"))
        self._note(why, about)

    def _fitting(self, there: int) -> tuple[int, ParallelConfig]:
        """Return the largest number of nodes or processes, of those there, that the layout allows, and its config."""
        for count in range(there, self._least - 1, -1):
            with suppress(InputError):
                return count, self._config if count == self._all else resized(self._config, count)
        raise StepError(f"{there} {self._unit} are there, and no layout of {self._least} or more fits the config")

    def _treat(self, error: ArgosyError) -> None:
        """Let the step go on after a failure that may pass. Raises it where it does not."""
        done, before = self._progress("done"), self._lost
        if done > self._farthest:
            self._tries, before = 0, None
        self._tries, self._farthest = self._tries + 1, max(done, self._farthest)
        if not isinstance(error, RankFailed) or not (error.again or error.about.get("bad")):
            raise error
        bad = self._bad(error, before)
        note_bad(self._out, str(error), error.about, self._groups.hosts)
        if bad:
            self._go_on_without(bad, error)
            return
        if self._tries > self._config.restarts:
            often = f"given up after {self._config.restarts} restarts without progress between (field restarts)"
            raise type(error)(f"{error}; {often}" if self._config.restarts else str(error), error.about)
        often = f"restart {self._tries} of {self._config.restarts} without progress between"
        self._restart(f"{error}; {often}", error.about)

    def _bad(self, error: RankFailed, before: int | None) -> list[int]:
        """List ranks to go on without: those that the check found bad; on one node that may have fewer, those whose GPU
        fails or does not answer, and one that is lost for the second time (`before`) without progress between."""
        if not error.again:
            return [int(rank) for rank in error.about["bad"]]
        if not isinstance(self._groups, Alone) or self._least == self._all:
            return []
        cause, ranks = error.about.get("cause") or "", error.about.get("ranks") or [error.about.get("rank")]
        self._lost = ranks[0] if len(ranks) == 1 and cause in _OF_PLACE else None
        again = self._lost is not None and (cause in _OF_GPU or self._lost == before)
        if silent := self._groups.silent():
            error.about["bad"] = dict.fromkeys(silent, "its GPU does not answer")
        return sorted({*silent, *(ranks if again else ())})

    def _go_on_without(self, ranks: list[int], error: RankFailed) -> None:
        """Leave the nodes, or places, of bad ranks out. Raises the error where too few others are there."""
        self._lost = None
        if self._least == self._all:
            raise error
        if (left := self._groups.leave_out(ranks)) < self._least:
            raise type(error)(f"{error}; {left} of {self._all} {self._unit} are left, and min_{self._unit} is "
                              f"{self._least}", error.about)
        count, _ = self._fitting(left)
        self._restart(f"{error}; without rank {' and '.join(map(str, ranks))} the step goes on with {count} of "
                      f"{self._all} {self._unit}", {**error.about, "left": count})
