"""Rounds of a step's ranks: who takes part in each, what follows a failure, and when the step gives up."""

import os
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

from argosy.core.config.explain import on_nodes
from argosy.core.config.schema import ParallelConfig
from argosy.core.errors import ArgosyError, InputError, StepError
from argosy.core.step.contract import Step
from argosy.core.step.machine import usable_gpus
from argosy.core.step.ranks import hang_timeout, rank_timeout
from argosy.core.step.ranks.diagnosis import GroupEnd, RankFailed, first_failure
from argosy.core.step.ranks.group import Place, run_group
from argosy.core.step.ranks.launcher import EXTERNAL, Launcher
from argosy.core.store.files import read_record, remove_temporaries
from argosy.core.store.step_files import PROGRESS

# Causes after which the machines are checked again; "" is none, at the start
_OF_HARDWARE = {"", "ECC", "NVLink", "Xid", "CUDA", "NCCL", "node", "membership"}
Note = Callable[[str, dict[str, Any]], None]


class Alone:
    """The one group of a step on one node, in this process; it does what a launcher does of several."""

    def __init__(self, step: str, local: int) -> None:
        self._step, self._local = step, local

    def gather(self, least: int) -> int:
        return 1

    def run(self, task: dict[str, Any], nodes: int, grows: Callable[[int], bool]) -> tuple[GroupEnd, bool]:
        return run_group(self._step, Place(local=self._local), task, lambda: ""), False

    def close(self) -> None:
        return


def run_ranks(step: Step[Any], config: ParallelConfig, out: Path, lease: str, note: Note) -> dict[str, Any]:
    """Run `step` as `config.processes` ranks; returns `outputs` and `computed_with` of rank 0, and what the
    largest node `used`, as GroupEnd has it.

    What a failure leaves starts again from the newest state, `config.restarts` times without progress between, and
    with fewer groups, down to `config.min_nodes`, where some do not come back. `lease`: token of this process's lease
    on `out`. The ranks renew it too, since they may work on while this process is suspended, and stop when another has
    taken the directory over. `note` records each restart. Raises InputError, StepError: names the rank that failed
    first; Stopped: a signal arrived; the ranks have ended."""
    rank_timeout(), hang_timeout()  # refuses wrong values before anything starts
    local = config.processes // config.nodes
    groups = Launcher(step.name, out, config.nodes, local) if config.nodes > 1 else Alone(step.name, local)
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
        self._used = 0.0, 0.0

    def run(self) -> dict[str, Any]:
        """Run rounds until one ends well. Raises what the last one failed by."""
        while True:
            config = self._config_of(self._groups.gather(self._config.min_nodes or self._config.nodes))
            task = {"config": config.model_dump(mode="json"), "out": str(self._out), "lease": self._lease,
                    "cause": self._cause, "preflight": self._checks(config)}
            end, grows = self._groups.run(task, config.nodes, partial(self._grows, config.nodes))
            peaks, cpu_s = zip(*end.used.values(), (0.0, 0.0), strict=True)
            self._used = max(self._used[0], *peaks), self._used[1] + max(cpu_s)
            if grows:
                self._restart("other nodes are there than before: the ranks start on them", {"cause": "membership"})
            elif not (end.exits or end.frozen or end.late) and "outputs" in end.ends.get(0, {}):
                return end.ends[0] | {"used": self._used}
            else:
                self._treat(first_failure(end, self._out))
            remove_temporaries(self._out)

    def _grows(self, nodes: int, there: int) -> bool:
        """Tell whether the layout takes more nodes than `nodes`, of those there."""
        return there > nodes and self._config_of(there).nodes > nodes

    def _checks(self, config: ParallelConfig) -> bool:
        """Tell whether the machines are checked first: as an attempt begins, or where one may have failed or is new."""
        several = EXTERNAL in os.environ or bool(usable_gpus())  # on a CPU all ranks of a laptop have the same machine
        wanted = config.preflight == "on" or (config.preflight == "auto" and several)
        return wanted and self._cause in _OF_HARDWARE

    def _restart(self, why: str, about: dict[str, Any]) -> None:
        self._cause = str(about.get("cause", "error"))
        self._note(why, about)

    def _config_of(self, there: int) -> ParallelConfig:
        """Return the config for the largest number of groups, of those there, that the layout allows."""
        for nodes in range(there, 0, -1):
            if nodes == self._config.nodes:
                return self._config
            with suppress(InputError):
                return on_nodes(self._config, nodes)
        raise StepError(f"{there} nodes are there, and no layout of fewer than {self._config.nodes} fits the config")

    def _treat(self, error: ArgosyError) -> None:
        """Let the step go on after a failure that may pass. Raises it where it does not."""
        done = float(read_record(self._out / PROGRESS).get("done", 0.0))
        self._tries = 1 if done > self._farthest else self._tries + 1
        self._farthest = max(done, self._farthest)
        if not isinstance(error, RankFailed) or not (error.again or error.about.get("bad")):
            raise error
        if not error.again:
            self._go_on_without([int(rank) for rank in error.about["bad"]], error)
            return
        if self._tries > self._config.restarts:
            often = f"given up after {self._config.restarts} restarts without progress between (field restarts)"
            raise type(error)(f"{error}; {often}" if self._config.restarts else str(error), error.about)
        often = f"restart {self._tries} of {self._config.restarts} without progress between"
        self._restart(f"{error}; {often}", error.about)

    def _go_on_without(self, ranks: list[int], error: RankFailed) -> None:
        """Leave the nodes of bad ranks out, where enough others are there. Raises the error where they are not."""
        least, nodes = self._config.min_nodes, self._config.nodes
        left = self._groups.leave_out(ranks) if isinstance(self._groups, Launcher) and 0 < least < nodes else 0
        if left < max(least, 1):
            raise error
        self._restart(f"{error}; the step goes on with {left} of {nodes} nodes", error.about)
