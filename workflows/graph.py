"""A pipeline as plain data: nodes, each one step with its config and its inputs, in the order of their dependence."""

import importlib
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property
from graphlib import CycleError, TopologicalSorter
from typing import Any

from pydantic import Field

from argosy.core.config.schema import Config, Role, role_of
from argosy.core.errors import InputError
from argosy.core.plugins import names
from argosy.core.step.contract import Step
from argosy.core.step.machine import usable_gpus
from argosy.core.store.provenance import Identities, made_from

FINAL, LINE = "final", "demo"  # last export of a training step; model line of a config that names none
_NAME, _LONGEST_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*"), 200  # of a directory; file systems allow 255


class Spending(Config):
    """The most that a pipeline may spend, over all its stages and attempts in a store; no digest has it."""

    gpu_hours: float | None = Field(None, gt=0)
    """hours of one GPU each"""
    cost: float | None = Field(None, gt=0)
    """money, in the currency of `gpu_hour_price`, which must be set"""

    @property
    def limited(self) -> bool:
        """Whether there is a limit."""
        return (self.gpu_hours, self.cost) != (None, None)


@dataclass(frozen=True)
class Resources:
    """The share of a machine that a node may use, of all its processes together."""

    cores: int = 1
    """Also its threads (ARGOSY_THREADS), but for torch's."""
    memory_gb: float = 1.0
    processes: int = 1
    """Number of processes that the step runs as."""
    gpus: int | None = None
    """Devices of its own on each machine, hidden from others; None: as many as `processes`, where there are any and the
    step needs the image with torch."""
    gpu_hour_price: float | None = None
    """Price of a GPU for an hour, if the pipeline's config names one."""
    nodes: int = 1
    """Number of machines that share the processes."""
    spot: bool = False
    """Whether its machines may be taken away at any time."""

    @property
    def all_gpus(self) -> int | None:
        """Devices on all machines together; None as `gpus`."""
        return None if self.gpus is None else self.gpus * self.nodes


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
    """Number of ready parts of this name that may share one process."""
    finished: Finished | None = None
    """Results to take as they are, if any; its config does not count then."""
    of: str = ""
    """The part of the pipeline's config that has its fields, where that is not called by its name."""
    early: bool = False
    """Whether it may start as soon as the export of its `checkpoint` is there, while that stage still trains."""

    @property
    def id(self) -> str:
        """`name` or `name/part`: unique in a graph."""
        return f"{self.name}/{self.part}" if self.part else self.name

    @property
    def place(self) -> str:
        """The place of its fields in the pipeline's config."""
        return self.of or self.name

    @property
    def gpus(self) -> int:
        """Number of devices that it will see."""
        return len(usable_gpus()) if self.resources.all_gpus is None else self.resources.all_gpus

    @property
    def definition(self) -> Step[Any]:
        """The step: its config class, version and function."""
        return definition(self.step)

    @property
    def most_minutes(self) -> float:
        """Time that its training may take, after which it fails, where its config states one; else 0."""
        return float(getattr(self.config, "most_minutes", 0.0))

    @property
    def makes_model(self) -> bool:
        """Whether it leaves a language model, which is evaluated."""
        return self.definition.makes_model

    @property
    def exports(self) -> tuple[str, ...]:
        """Names of the checkpoints that a training stage will leave, or left, the last one as `final`."""
        if self.finished:
            return self.finished.exports
        steps: Mapping[str, int] = getattr(self.config, "export_steps", dict)()
        last = None if getattr(self.config, "final_by", "") else -1  # which the final one may not be
        return (*list(steps)[:last], FINAL)

    @property
    def helps(self) -> bool:
        """Whether it is of post-training and leaves none: a reward model, data."""
        return bool(self.definition.methods) and not self.makes_model

    @cached_property
    def upstream(self) -> "dict[str, tuple[Node, ...]]":
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


@cache
def definitions() -> dict[str, Step[Any]]:
    import steps

    return {name: definition(name) for name in names(steps)}


def check_node(node: Node, known: Mapping[str, Node]) -> None:
    """Check that `node` fits its step and its upstream nodes are among `known` (by id). Raises InputError: not so."""
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

    Raises InputError: a duplicate, a cycle, an unknown step or field, an external file that does not exist."""

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
