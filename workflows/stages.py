"""The stages of a pipeline, collected as nodes with their share of the machine; also those without a line on its
page, whose steps say after which stages they come."""

from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from functools import cache
from graphlib import TopologicalSorter
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import Field, create_model

from argosy.core.config.explain import likely, resized, validated
from argosy.core.config.schema import Config, ParallelConfig, needed_by
from argosy.core.errors import InputError
from argosy.core.step.contract import Step
from argosy.core.step.machine import has_gpu, usable_cores
from workflows.graph import Node, Resources, definitions

SPOT_RATE = 15.0  # losses of a GPU in a month


class StageResources(Config):
    """The share of a machine that one node of a stage may use, with all its processes."""

    cores: Annotated[int, Field(ge=1)] | Literal["all"] | None = None
    """for scheduling; by default the stage's `threads` times its `processes`. all: those of the machine that plans,
    as `threads`, where the stage names none"""
    memory_gb: float | None = Field(None, gt=0)
    """10^9 bytes, for scheduling; by default 1 for each process"""
    gpus: int | None = Field(None, ge=0)
    """devices of its own on each node, one for each of a training stage's `processes` there. 0: it sees none; null: one
    for each process that uses torch, if there are any"""
    nodes: int = Field(1, ge=1)
    """machines that share a stage's `processes`, with one file system: groups of processes on a laptop, the pods of a
    JobSet on a cluster"""
    min_nodes: int = Field(0, ge=0)
    """nodes with which the stage goes on where others are lost, until they are back; 0: all of them"""
    spot: bool = False
    """machines that may be taken away at any time, in the place that a cluster's profile names; states are saved as
    often as suits 15 losses of a GPU in a month, unless the stage's failure_rate says otherwise"""


class Stages:
    """A collector of nodes.

    Args:
        seed: for configs that have a field `seed` and were not given one.
        resources: by stage; one that is not named gets the defaults of StageResources.
        known: names of all stages that there are; None: those that are named.
        chosen: names of the stages to collect; None: all.
        price: of a GPU for an hour.

    Attributes:
        named: steps of the stages that were named, collected or not.
        known: as given."""

    def __init__(self, seed: int, resources: Mapping[str, StageResources], known: Collection[str] | None,
                 chosen: Collection[str] | None = None, price: float | None = None) -> None:
        self.nodes: list[Node] = []
        self.named: dict[str, str] = {}
        self.seed, self.resources, self.known, self._chosen, self._price = seed, resources, known, chosen, price

    def has(self, name: str) -> bool:
        """Tell whether a stage is among the chosen ones. Raises InputError: there is no such stage."""
        if self.known is not None and name not in self.known:
            raise InputError(f"stage {name!r} is none of the pipeline's; {likely(name, self.known)}")
        return self._chosen is None or name in self._chosen

    def __call__(self, name: str, step: str, config: Config | None, *, part: str = "", batch: int = 1, of: str = "",
                 early: bool = False, **inputs: Node | Sequence[Node] | None) -> Node | None:
        """Add the node `name` of `steps/<step>.py`; `inputs` are its config's upstream fields. None where it is not
        among the chosen ones. Raises InputError: there is no such stage, or a required input has no producer."""
        self.named[name] = step
        if not self.has(name) or config is None:
            return None
        needed = {field: what for field in inputs if (what := needed_by(type(config), field))}
        if lacking := next((what for field, what in needed.items() if not inputs[field]), ""):
            raise InputError(f"stage {name} needs {lacking}")
        given = self.resources.get(name, StageResources())
        if "seed" in type(config).model_fields and "seed" not in config.model_fields_set:
            config = config.model_copy(update={"seed": self.seed})
        config = _with_processes(name, config, given).settled(gpu=has_gpu(given.gpus))
        if given.spot and "failure_rate" in type(config).model_fields.keys() - config.model_fields_set:
            config = config.model_copy(update={"failure_rate": SPOT_RATE})
        processes: int = getattr(config, "processes", 1)
        if given.cores == "all" and "threads" in type(config).model_fields.keys() - config.model_fields_set:
            config = config.model_copy(update={"threads": max(1, usable_cores() // processes)})  # a digest has it
        cores = given.cores if isinstance(given.cores, int) else int(getattr(config, "threads", 1)) * processes
        memory_gb = float(processes) if given.memory_gb is None else given.memory_gb
        resources = Resources(cores, memory_gb, processes, given.gpus, self._price, given.nodes, given.spot)
        node = Node(name, step, config, inputs={key: value for key, value in inputs.items() if value is not None},
                    part=part, resources=resources, batch=batch, of=of, early=early)
        self.nodes.append(node)
        return node


def _with_processes(name: str, config: Config, resources: StageResources) -> Config:
    """`config` with one process for each GPU, on the nodes that it is given, where it can run as several."""
    nodes, gpus, least = resources.nodes, resources.gpus, resources.min_nodes
    if not isinstance(config, ParallelConfig):
        if nodes > 1:
            raise InputError(f"resources.{name}.nodes is {nodes}, allowed: 1, as {name} runs as one process")
        return config
    if least > nodes:
        raise InputError(f"resources.{name}.min_nodes is {least}, allowed: up to resources.{name}.nodes, which is "
                         f"{nodes}")
    if nodes == 1 and not gpus:
        return _that_may_shrink(name, config)
    given = {field: getattr(config, field) for field in config.model_fields_set}
    given |= {"nodes": nodes, "min_nodes": least}
    processes = nodes * max(1, (gpus or 0) - int(getattr(config, "server_gpus", 0)))
    if gpus and "processes" in config.model_fields_set and config.processes != processes:
        each = f" on each of {nodes} nodes" if nodes > 1 else ""
        raise InputError(f"{name}.processes is {config.processes} and resources.{name}.gpus is {gpus}{each}, allowed: "
                         f"{processes}, one for each GPU but a server's; or set gpus=0 to train on the CPU")
    given["processes"] = processes if gpus else given.get("processes", nodes)
    try:
        made = validated(type(config), given)
    except InputError as error:
        of = (f"resources.{name}.gpus (or the cluster profile) gives it {gpus} on each of {nodes} nodes, and it runs "
              "as one process for each GPU" if gpus else f"resources.{name}.nodes is {nodes}, which share "
              f"{given['processes']} processes ({name}.processes; one for each node by default)")
        raise InputError(f"{of}: {error}") from None
    return _that_may_shrink(name, made)


def _that_may_shrink(name: str, config: ParallelConfig) -> ParallelConfig:
    """`config`. Raises InputError: it may go on with fewer nodes or processes, and no such number fits it."""
    unit, field = ("nodes", f"resources.{name}") if config.nodes > 1 else ("processes", name)
    least, most = getattr(config, f"min_{unit}"), getattr(config, unit)
    if least > most:
        raise InputError(f"{field}.min_{unit} is {least}, allowed: up to the number of its {unit}, which is {most}")
    if least in (0, most):
        return config
    for count in range(least, most):
        with suppress(InputError):
            resized(config, count)
            return config
    raise InputError(f"{field}.min_{unit} is {least}, and no number of {unit} from {least} to {most - 1} fits: their "
                     "processes must divide the batch and the layout; lower it, or leave it out")


@cache
def further_steps() -> dict[str, Step[Any]]:
    """Return the steps with an `after`, each after those of them that it names."""
    found = {name: step for name, step in definitions().items() if step.after}
    order = TopologicalSorter({name: {*step.after.values()} & found.keys() for name, step in found.items()})
    return {name: found[name] for name in order.static_order()}


if TYPE_CHECKING:

    class Further(Config):
        """Base of the pipeline's config, with a field for each of these stages: its step's config, or null."""
else:
    Further = create_model("Further", __base__=Config, **{
        name: (step.config | None, step.config()) for name, step in further_steps().items()})  # fmt: skip


def add_further(stage: Stages, config: Config) -> list[Node]:
    """Add a node for each of these stages; one that lacks a stage before it is left out. Returns them. Raises
    InputError: `stages` names one that lacks what it comes after, or no stage is called so."""
    return [node for name, step in further_steps().items() if (node := _add(stage, name, step, config))]


def _add(stage: Stages, name: str, step: Step[Any], config: Config) -> Node | None:
    inputs: dict[str, Any] = {}
    for field, before in step.after.items():
        if stage.known is None and before not in stage.named:  # of a whole pipeline; one in parts names some alone
            raise InputError(f"steps/{name}.py: after has {before!r}; {likely(before, stage.named)}")
        nodes = [node for node in stage.nodes if node.name == before]
        inputs[field] = nodes if step.config.model_fields[field].annotation is not str else next(iter(nodes), None)
    lacking = next((step.after[field] for field, nodes in inputs.items() if not nodes), "")
    if lacking and name in getattr(config, "stages", ()):
        raise InputError(f"stage {name} needs {lacking}: add {lacking} to stages")
    for field, other in step.also.items():
        inputs[field] = [node for node in stage.nodes if node.step == other] or None
    return stage(name, name, None if lacking else getattr(config, name), **inputs)
