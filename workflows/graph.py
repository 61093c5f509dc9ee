"""A pipeline as plain data: nodes, each one step with its config and its inputs, in the order in which they depend
on each other."""

import importlib
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property
from graphlib import CycleError, TopologicalSorter
from typing import Annotated, Any, Literal

from pydantic import Field

from argosy.core.config.explain import likely, validated
from argosy.core.config.schema import Config, ParallelConfig, Role, role_of
from argosy.core.errors import InputError
from argosy.core.step.contract import Step
from argosy.core.step.machine import has_gpu, usable_cores
from argosy.core.store.provenance import Identities, made_from

FINAL, LINE = "final", "demo"  # last export of a training step; model line of a config that names none
_NAME, _LONGEST_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*"), 200  # of a directory; file systems allow 255


@dataclass(frozen=True)
class Resources:
    """The share of one machine that a node may use, of all its processes together."""

    cores: int = 1
    """Also its threads (ARGOSY_THREADS), but for torch's."""
    memory_gb: float = 1.0
    processes: int = 1
    """How many the step runs as."""
    gpus: int | None = None
    """Devices of its own, hidden from others; None: as many as `processes`, where there are any and the step needs the
    image with torch."""


@dataclass(frozen=True)
class Finished:
    """The results of a finished node, with which a graph may begin, whatever config made it."""

    record: Mapping[str, Any]
    """The `made_from` of its `outputs.json`."""
    directory: str
    exports: tuple[str, ...] = ()
    """Names of its checkpoints, the last one as `final`."""


@dataclass(frozen=True, eq=False)
class Node:
    """One step with its config, its upstream nodes and its resources."""

    name: str
    """The stage's name; parts of a fan-out share it."""
    step: str
    """Module below `steps`."""
    config: Config
    inputs: "Mapping[str, Node | Sequence[Node]]" = field(default_factory=dict)
    """Config field (of type Upstream or Upstreams) -> the node, or nodes, whose directory it gets."""
    part: str = ""
    """Tells the parts of one name apart."""
    resources: Resources = Resources()
    batch: int = 1
    """How many ready parts of this name may share one process."""
    finished: Finished | None = None
    """What it left, where that is taken as it is; its config does not count then."""

    @property
    def id(self) -> str:
        """`name` or `name/part`: unique in a graph."""
        return f"{self.name}/{self.part}" if self.part else self.name

    @property
    def definition(self) -> Step[Any]:
        """The step: its config class, version and function."""
        return definition(self.step)

    @cached_property
    def upstream(self) -> "dict[str, tuple[Node, ...]]":
        """Upstream nodes by field, always as a tuple."""
        return {name: (value,) if isinstance(value, Node) else tuple(value) for name, value in self.inputs.items()}


def prefix(name: str, part: str) -> str:
    """Return the common beginning of a node's directories, whatever its config."""
    return f"{name}-{part}" if part else name


@cache
def definition(step: str) -> Step[Any]:
    """Import the `STEP` of module `steps.<step>`. Raises InputError: there is no such module."""
    try:
        found: Step[Any] = importlib.import_module(f"steps.{step}").STEP
    except ModuleNotFoundError as error:
        if error.name != f"steps.{step}":
            raise
        raise InputError(f"step {step!r} does not exist: there is no steps/{step}.py") from None
    return found


def check_node(node: Node, known: Mapping[str, Node]) -> None:
    """Check that `node` fits its step and that its upstream nodes are among `known` (by id).

    Raises InputError: it does not."""
    name = prefix(node.name, node.part)
    if not _NAME.fullmatch(name) or len(name) > _LONGEST_NAME:
        raise InputError(f"node {node.id!r} cannot name a directory: allowed are up to {_LONGEST_NAME} letters, "
                         "digits, '.', '_' and '-'")
    if node.finished:
        return
    expected: type[Config] = node.definition.config
    if not isinstance(node.config, expected):
        raise InputError(f"node {node.id!r}: config is {type(node.config).__name__}, allowed: {expected.__name__}")
    allowed = _upstream_fields(expected)
    for name, nodes in node.upstream.items():
        if name not in allowed:
            raise InputError(f"node {node.id!r}: inputs has {name!r}, allowed: {sorted(allowed) or 'none'}")
        if not allowed[name] and len(nodes) != 1:
            raise InputError(f"node {node.id!r}: field {name!r} takes one node, got {len(nodes)}")
        for other in nodes:
            if known.get(other.id) is not other:
                raise InputError(f"node {node.id!r} depends on {other.id!r}, which is not in the graph")


@cache
def _upstream_fields(cls: type[Config]) -> dict[str, bool]:
    """List upstream fields of a config class: whether each takes several nodes. Roles below the top are refused."""
    for name, info in cls.model_fields.items():
        if isinstance(info.annotation, type) and issubclass(info.annotation, Config):
            _refuse_roles(info.annotation, f"{cls.__name__}.{name}")
    return {name: cls.model_fields[name].annotation is not str for name in cls.fields_with(Role.UPSTREAM)}


def _refuse_roles(cls: type[Config], where: str) -> None:
    for name, info in cls.model_fields.items():
        if role_of(info) in (Role.UPSTREAM, Role.EXTERNAL):
            raise InputError(f"{where}.{name}: an upstream or external field must be at the top of a step's config; "
                             "the graph does not see it here")
        if isinstance(info.annotation, type) and issubclass(info.annotation, Config):
            _refuse_roles(info.annotation, f"{where}.{name}")


class Graph:
    """Checked nodes in an order in which each comes after its upstream nodes, with their digests.

    Args:
        nodes: all of them; their order is kept where it is possible.
        identities: of external files; in memory unless given.

    Raises:
        InputError: a duplicate, a cycle, an unknown step or field, an external file that does not exist."""

    def __init__(self, nodes: Iterable[Node], identities: Identities | None = None) -> None:
        self._by_id = _unique(nodes)
        for node in self._by_id.values():
            check_node(node, self._by_id)
        self.nodes = _ordered(self._by_id)
        self._records: dict[str, dict[str, Any]] = {}
        identities = identities or Identities()
        for node in self.nodes:
            self._records[node.id] = self._made_from(node, identities)

    @property
    def stages(self) -> list[str]:
        """Names of nodes in order of their first appearance."""
        return list(dict.fromkeys(node.name for node in self.nodes))

    def made_from(self, node: Node) -> dict[str, Any]:
        """Return the record that the node's `outputs.json` will carry."""
        return self._records[node.id]

    def digest(self, node: Node) -> str:
        """Return the digest: it changes with the step's version, its config, anything upstream or an external file."""
        return str(self._records[node.id]["digest"])

    def directory(self, node: Node, store: str) -> str:
        """Return `<store>/<name>[-<part>]-<digest>`, or where a finished node lies."""
        name = prefix(node.name, node.part)
        return node.finished.directory if node.finished else f"{store}/{name}-{self.digest(node)}"

    def _made_from(self, node: Node, identities: Identities) -> dict[str, Any]:
        if node.finished:
            return dict(node.finished.record)
        upstream = {name: [self.digest(n) for n in nodes] for name, nodes in node.upstream.items()}
        step = node.definition
        return made_from(step.name, step.version, node.config, node=node.name, part=node.part, upstream=upstream,
                         external=identities.of_config(node.config, node.name))


def _unique(nodes: Iterable[Node]) -> dict[str, Node]:
    found: dict[str, Node] = {}
    for node in nodes:
        if node.id in found:
            raise InputError(f"two nodes are called {node.id!r}: parts of one name need different `part`s")
        found[node.id] = node
    return found


def _ordered(by_id: Mapping[str, Node]) -> list[Node]:
    graph = {key: [n.id for nodes in node.upstream.values() for n in nodes] for key, node in by_id.items()}
    seen: set[str] = set()
    for key, upstream in graph.items():
        if not seen.issuperset(upstream):
            break
        seen.add(key)
    else:
        return list(by_id.values())  # the given order is good
    try:
        return [by_id[key] for key in TopologicalSorter(graph).static_order()]
    except CycleError as error:
        raise InputError(f"the graph has a cycle: {' <- '.join(error.args[1])}") from None


class StageResources(Config):
    """The share of a machine that one node of a stage may use, with all its processes."""

    cores: Annotated[int, Field(ge=1)] | Literal["all"] | None = None
    """for scheduling; by default the stage's `threads` times its `processes`. all: those of the machine that plans,
    as `threads`, where the stage names none"""
    memory_gb: float | None = Field(None, gt=0)
    """10^9 bytes, for scheduling; by default 1 for each process"""
    gpus: int | None = Field(None, ge=0)
    """devices of its own, one for each of a training stage's `processes`. 0: it sees none; null: one for each process
    that uses torch, if there are any"""
    nodes: Literal[1] = 1
    """machines; a stage on several of them is refused so far"""


class Stages:
    """A collector of nodes.

    Args:
        seed: for configs that have a field `seed` and were not given one.
        resources: by stage; one that is not named gets the defaults of StageResources.
        known: names of all stages that there are.
        chosen: names of the stages to collect; None: all."""

    def __init__(self, seed: int, resources: Mapping[str, StageResources], known: Collection[str],
                 chosen: Collection[str] | None = None) -> None:
        self.nodes: list[Node] = []
        self.seed, self.resources, self._known, self._chosen = seed, resources, known, chosen

    def has(self, name: str) -> bool:
        """Tell whether a stage is among the chosen ones. Raises InputError: there is no such stage."""
        if name not in self._known:
            raise InputError(f"stage {name!r} is in the graph, and STAGES of workflows/lifecycle.py lacks it: add it "
                             f"there ({likely(name, self._known)})")
        return self._chosen is None or name in self._chosen

    def __call__(
        self, name: str, step: str, config: Config | None, *, part: str = "", batch: int = 1,
        **inputs: Node | Sequence[Node] | None,
    ) -> Node | None:
        """Add the node `name` of `steps/<step>.py`; `inputs` are its config's upstream fields. None where it is not
        among the chosen ones. Raises InputError: there is no such stage, or a required input has no producer."""
        if not self.has(name) or config is None:
            return None
        if lacking := next((wanted for wanted, node in inputs.items() if wanted in NEEDED and not node), ""):
            raise InputError(f"stage {name} needs {NEEDED[lacking]}")
        given = self.resources.get(name, StageResources())
        if "seed" in type(config).model_fields and "seed" not in config.model_fields_set:
            config = config.model_copy(update={"seed": self.seed})
        config = _with_processes(name, config, given.gpus).settled(gpu=has_gpu(given.gpus))
        processes: int = getattr(config, "processes", 1)
        if given.cores == "all" and "threads" in type(config).model_fields.keys() - config.model_fields_set:
            config = config.model_copy(update={"threads": max(1, usable_cores() // processes)})  # a digest has it
        cores = given.cores if isinstance(given.cores, int) else int(getattr(config, "threads", 1)) * processes
        memory_gb = float(processes) if given.memory_gb is None else given.memory_gb
        resources = Resources(cores, memory_gb, processes, given.gpus)
        node = Node(name, step, config, inputs={key: value for key, value in inputs.items() if value is not None},
                    part=part, resources=resources, batch=batch)
        self.nodes.append(node)
        return node


NEEDED = {
    "documents": "cleaned documents: add clean to stages",
    "tokenizer": "a tokenizer: set start.model, whose own is taken, or add tokenizer to stages",
    "tokenized": "token ids: add tokenize to stages",
    "checkpoint": "a model: set start.model, or add a stage that trains one (pretrain, clean, tokenizer, tokenize)",
    "checkpoints": "a model: set start.model, or add a stage that trains one",
}  # by field of a step's config: what a person does where no stage fills it


def _with_processes(name: str, config: Config, gpus: int | None) -> Config:
    """`config` with one process for each GPU, where it can run as several."""
    if not gpus or not isinstance(config, ParallelConfig):
        return config
    processes = max(1, gpus - int(getattr(config, "server_gpus", 0)))
    if "processes" in config.model_fields_set and config.processes != processes:
        raise InputError(f"{name}.processes is {config.processes} and resources.{name}.gpus is {gpus}, allowed: as "
                         f"many processes as GPUs, but a server's; leave {name}.processes out, or set gpus=0 to "
                         "train on the CPU")
    given = {field: getattr(config, field) for field in config.model_fields_set}
    try:
        return validated(type(config), {**given, "processes": processes})
    except InputError as error:
        raise InputError(f"{name} runs as one process for each GPU, of which resources.{name}.gpus (or the cluster "
                         f"profile) gives it {gpus}: {error}") from None
