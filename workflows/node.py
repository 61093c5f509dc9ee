"""A node of a graph: one step with what it is given."""

from __future__ import annotations

import importlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property
from typing import Any

from argosy.config import Config, Role, role_of
from argosy.errors import InputError
from argosy.step import Step

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_LONGEST_NAME = 200  # of a directory; file systems allow 255


@dataclass(frozen=True)
class Resources:
    """What a node may use on one machine. cores: also its threads (ARGOSY_THREADS), but for torch's."""

    cores: int = 1
    memory_gb: float = 1.0


@dataclass(frozen=True)
class Finished:
    """What a node that is done has left: a graph may begin with it, whatever config it was made from.

    Attributes:
        record: the `made_from` of its `outputs.json`.
        exports: names of its checkpoints, the last one as `final`.
    """

    record: Mapping[str, Any]
    directory: str
    exports: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False)
class Node:
    """One step with its config, its upstream nodes and its resources.

    Attributes:
        name: the stage's name; parts of a fan-out share it.
        step: module below `steps`.
        inputs: config field (of type Upstream or Upstreams) -> the node, or nodes, whose directory it gets.
        part: tells the parts of one name apart.
        batch: how many ready parts of this name may share one process.
        finished: what it left, where that is taken as it is; its config does not count then.
    """

    name: str
    step: str
    config: Config
    inputs: Mapping[str, Node | Sequence[Node]] = field(default_factory=dict)
    part: str = ""
    resources: Resources = Resources()
    batch: int = 1
    finished: Finished | None = None

    @property
    def id(self) -> str:
        """`name` or `name/part`: unique in a graph."""
        return f"{self.name}/{self.part}" if self.part else self.name

    @property
    def definition(self) -> Step[Any]:
        """The step: its config class, version and function."""
        return definition(self.step)

    @cached_property
    def upstream(self) -> dict[str, tuple[Node, ...]]:
        """Upstream nodes by field, always as a tuple."""
        return {name: (value,) if isinstance(value, Node) else tuple(value) for name, value in self.inputs.items()}


def prefix(name: str, part: str) -> str:
    """What the directories of a node have in common, whatever its config."""
    return f"{name}-{part}" if part else name


@cache
def definition(step: str) -> Step[Any]:
    """The `STEP` of module `steps.<step>`.

    Raises:
        InputError: there is no such module.
    """
    try:
        found: Step[Any] = importlib.import_module(f"steps.{step}").STEP
    except ModuleNotFoundError as error:
        if error.name != f"steps.{step}":
            raise
        raise InputError(f"step {step!r} does not exist: there is no steps/{step}.py") from None
    return found


def check_node(node: Node, known: Mapping[str, Node]) -> None:
    """See that `node` fits its step and that what it depends on is among `known` (by id).

    Raises:
        InputError: it does not.
    """
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
    """Upstream fields of a config class: whether each takes several nodes. Roles below the top are refused."""
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
