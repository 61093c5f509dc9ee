"""Budget of a pipeline in GPU-hours or money: what its stages have spent, what the rest will take, and when it is over.

What the rest takes is known of a stage that was begun, by its speed, and of one that has run before in this store with
the same settings, but for those that no time follows from. Of others nothing is assumed."""

import os
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from argosy.core.errors import InputError
from argosy.core.step.machine import usable_gpus
from argosy.core.store.files import read_record
from argosy.core.store.goodput import Goodput, attempts_of, goodput
from argosy.core.store.lease import live_holder
from argosy.core.store.remote import state
from argosy.core.store.step_files import NODE, PROGRESS, RUN
from workflows.graph import Spending, definition
from workflows.learnt import runs_of
from workflows.lifecycle import LifecycleConfig
from workflows.plan import Plan, PlannedNode

_NO_TIME = {"seed", "learning_rate", "min_learning_rate", "weight_decay", "warmup", "line"}
_AMOUNTS = ("tokens", "max_steps", "epochs")  # the time grows as these do


class Account(NamedTuple):
    """A budget in one unit: its field, the limit, what is spent, what the rest will take by stage, and the stages of
    which that is not known."""

    field: str
    limit: float
    spent: float
    ahead: Mapping[str, float]
    unknown: tuple[str, ...]

    def describe(self) -> str:
        """Describe it in a line."""
        parts = ", ".join(f"{stage} {value:,.3g}" for stage, value in self.ahead.items() if value)
        lacking = f"no estimate of {', '.join(self.unknown)}, which never ran like this" if self.unknown else ""
        rest = "; ".join(filter(None, (f"the rest will take about {sum(self.ahead.values()):,.3g} ({parts})" if parts
                                       else "", lacking)))
        return f"budget.{self.field} is {self.limit:g}: {self.spent:,.4g} spent" + (f"; {rest}" if rest else "")


def accounts(planned: Plan, config: LifecycleConfig) -> list[Account]:
    """Return an account for each limit that `config` sets."""
    price = config.gpu_hour_price or 0.0
    limits = [("gpu_hours", config.budget.gpu_hours, 1.0), ("cost", config.budget.cost, price)]
    if not config.budget.limited:
        return []
    hours = _hours_ahead(planned)
    known: dict[str, float] = {}
    for node in planned.to_run:
        known[node.name] = known.get(node.name, 0.0) + (hours[node.id] or 0.0)
    unknown = tuple(dict.fromkeys(node.name for node in planned.to_run if hours[node.id] is None))
    attempts = [goodput(attempts_of(node.dir, alive=True)) for node in planned.nodes]
    spent = dict(zip(("gpu_hours", "cost"), _spent(attempts, price), strict=True))
    return [Account(field, limit, spent[field], {name: rate * value for name, value in known.items()}, unknown)
            for field, limit, rate in limits if limit is not None]


def check_budget(found: list[Account], planned: Plan) -> None:
    """Raise InputError where a budget is spent, or will be by what is known of the rest."""
    counts = any(_gpus(node) for node in planned.to_run)
    if found and planned.to_run and not counts:
        print(f"note: budget.{found[0].field} counts GPUs, and no stage that is to run has one here", file=sys.stderr)
    for each in found:
        if counts and each.spent + sum(each.ahead.values()) >= each.limit:
            raise InputError(f"{each.describe()}: raise budget.{each.field}, or train less")


class Meter:
    """Watch over what a running pipeline spends.

    Args:
        price: of a GPU for an hour, where an attempt has none of its own.
        directories: of all nodes of the pipeline, whoever runs them.
        running: the nodes that this process runs."""

    def __init__(self, limits: Spending, price: float | None, directories: Iterable[str],
                 running: Iterable[PlannedNode]) -> None:
        self._limits, self._price, self._directories = limits, price or 0.0, tuple(directories)
        self._wanted = [node for node in running if _gpus(node)] if limits.limited else []
        self._read: dict[str, tuple[tuple[object, ...], bool, Goodput]] = {}  # a record's version; GPUs in use

    def __call__(self) -> str:
        """Say that a budget is spent while a stage with GPUs runs; "" where none is."""
        if not any(live_holder(node.dir) for node in self._wanted):
            return ""
        found = [self._goodput(directory) for directory in self._directories]
        for field, spent in zip(("gpu_hours", "cost"), _spent(found, self._price), strict=True):
            limit = getattr(self._limits, field)
            if limit is not None and spent >= limit:
                return (f"budget.{field} is {limit:g} and {spent:,.4g} are spent: training was stopped and keeps its "
                        f"state. Raise budget.{field} and run the same command to go on from there.")
        return ""

    def _goodput(self, directory: str) -> Goodput:
        """Return a node's, which is read again where its record is another one, or an attempt with GPUs has no end."""
        try:
            version = state(os.path.join(directory, RUN))
        except OSError:
            version = ()
        before, uses, found = self._read.get(directory, ((), False, goodput(())))
        if (uses or version != before) and (attempts := attempts_of(directory, alive=True)):  # none: not readable now
            found = goodput(attempts)
            self._read[directory] = version, attempts[-1]["exit"] is None and bool(attempts[-1].get("gpus")), found
        return found


def _gpus(node: PlannedNode) -> int:
    """Return the number of GPUs that a node gets here."""
    given = node.resources
    if given.gpus is not None or definition(node.step).needs != "train":
        return given.all_gpus or 0
    return min(given.processes, len(usable_gpus()))


def _spent(found: Sequence[Goodput], price: float) -> tuple[float, float]:
    """Return GPU-hours, and their cost at the price that each attempt had, else at `price`."""
    return sum(each.gpu_hours for each in found), sum(
        each.gpu_hours * price if each.cost is None else each.cost for each in found)


def spent_by(store: Path, key: str) -> list[tuple[str, str, str, str, str]]:
    """Tabulate what all attempts in a store have spent, by person, workflow, namespace or stage, the most first. Raises
    InputError: nothing has run there."""
    found: dict[str, list[Goodput]] = {}
    for path in sorted(store.glob(f"*/{RUN}")):
        stage = str(read_record(path.parent / NODE).get("node") or path.parent.name) if key == "stage" else ""
        for attempt in attempts_of(path.parent, alive=True):
            name = stage or attempt.get(key) or "(unknown)"
            found.setdefault(name, []).append(goodput([attempt]))
    if not found:
        raise InputError(f"--store is {store}, where nothing has run yet")
    rows = [(name, len(each), sum(one.wall for one in each) / 3600, *_spent(each, 0.0)) for name, each in found.items()]
    return [(key.upper(), "ATTEMPTS", "HOURS", "GPU-HOURS", "COST"),
            *((name, f"{count:,}", f"{wall:,.2f}", f"{hours:,.2f}", f"{cost:,.2f}" if cost or not hours else "unknown")
              for name, count, wall, hours, cost in sorted(rows, key=lambda row: (-row[3], -row[2], row[0])))]


def _hours_ahead(planned: Plan) -> dict[str, float | None]:
    """Return the GPU-hours that each node that is to run will take; None where nothing says."""
    hours: dict[str, float | None] = {}
    alike: set[str] = set()  # nodes whose model is that of an earlier run
    for node in planned.to_run:
        gpus = _gpus(node)
        seconds = (_left(node) or next(_before(node, planned, alike), None)) if gpus else 0.0
        hours[node.id] = None if seconds is None else seconds * gpus / 3600
        alike |= {node.id} if seconds is not None else set()
    return hours


def _left(node: PlannedNode) -> float | None:
    """Return the seconds that a stage that was begun has left, by the speed of its last process that trained."""
    total = read_record(Path(node.dir, PROGRESS)).get("total", 0)
    runs = [run for attempt in attempts_of(node.dir) for run in attempt["runs"] if run["done"] > run["from"]]
    if not runs or not total:
        return None
    last = runs[-1]
    return float((total - last["done"]) * (last["at"] - last["began"]) / (last["done"] - last["from"]))


def _before(node: PlannedNode, planned: Plan, alike: set[str]) -> Iterator[float]:
    """Yield the seconds of training of earlier runs of a node with equal settings, the newest first, by its amount."""
    models = [each for each in planned.nodes if each.id in node.upstream and definition(each.step).makes_model]
    ours: dict[str, Any] = definition(node.step).config.model_validate_json(node.config).identity()
    for directory in reversed(runs_of(node, planned.store)):
        record, attempts = read_record(directory / NODE), attempts_of(directory)
        theirs, upstream = record.get("config", {}), str(record.get("upstream", {}))
        same = all(ours.get(name) == theirs.get(name) for name in {*ours, *theirs}.difference(_NO_TIME, _AMOUNTS))
        known = all(each.id in alike or each.digest in upstream for each in models)
        if same and known and attempts and attempts[-1]["exit"] == 0 and record.get("part") == node.part:
            found = goodput(attempts)
            more = [ours[name] / theirs[name] for name in _AMOUNTS if ours.get(name) and theirs.get(name)]
            yield found.productive * max(more, default=1.0)
