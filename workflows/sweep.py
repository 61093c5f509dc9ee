"""A sweep as a graph: the lifecycle's stages up to pretraining, which has a part for each point, and their comparison.

A point is called by its config alone and not by its place in the grid. So it has the same directory in every sweep that
has it, and a sweep that is extended costs the new points."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from argosy.core.config.load import load
from argosy.core.config.schema import RUNTIME, field_type, models_at, role_of
from argosy.core.errors import InputError
from argosy.core.store.files import read_record
from argosy.core.store.provenance import IDENTITIES, Identities
from argosy.core.store.step_files import ERROR
from argosy.evidence.sweep.grid import DIVERGED, STAGE, Grid, is_size, read_grid
from steps.pretrain import PretrainConfig
from steps.sweep import Diverged, SweepConfig
from workflows.compose import compose, every_stage
from workflows.graph import Graph, Node
from workflows.lifecycle import LifecycleConfig, lifecycle

NAME = "sweep"
TOGETHER = 8  # points that one process may train one after the other, to start up once
_DIGITS = 6


@dataclass(frozen=True)
class Question:
    """Options of the comparison, as of `SweepConfig`."""

    channel: str = "all"
    target_parameters: float = 0.0


@dataclass(frozen=True)
class Sweep:
    """The configs of a sweep's points, all alike but for the fields of its axes."""

    grid: Grid
    points: tuple[LifecycleConfig, ...]

    @property
    def first(self) -> LifecycleConfig:
        return self.points[0]

    @property
    def line(self) -> str:
        """Name the sweep's model line, apart from that of the lifecycle: its points are no candidates of it."""
        return self.first.name


def read_sweep(preset: str | None, file: Path | None, overrides: Sequence[str], seeds: int = 0) -> Sweep:
    """Read the points that `overrides` span.

    Args:
        seeds: seeds of each point, from the stage's (or else the config's) on; 0: as `overrides` say.

    Raises InputError: a field, a value or the grid is wrong; names them."""
    grid = read_grid(LifecycleConfig, overrides, seeds)
    base = compose(preset, file, [*grid.fixed, *next(grid.points())])
    _check_axes(grid, base)
    if seeds > 1:
        begin = compose(preset, file, grid.fixed)
        seed = begin.pretrain.seed if "seed" in begin.pretrain.model_fields_set else begin.seed
        grid = read_grid(LifecycleConfig, overrides, seeds, seed)
    stages = tuple(name for name in _up_to(lifecycle(base.model_copy(update={"stages": ()}))) if name != "start")
    data = base.model_dump(exclude_unset=True) | {"stages": stages, "name": f"{base.name}-{NAME}"}
    points = (load(LifecycleConfig, [data], point) for point in grid.points())
    only_end = [point.model_copy(update={STAGE: point.pretrain.model_copy(update={"exports": (1.0,)})})
                for point in points]  # which a sweep compares
    return Sweep(grid, tuple(only_end))


def _up_to(nodes: Sequence[Node]) -> list[str]:
    found = {STAGE}
    for node in reversed(nodes):
        if node.name in found:
            found |= {other.name for others in node.upstream.values() for other in others}
    return [name for name in dict.fromkeys(node.name for node in nodes) if name in found]


def _check_axes(grid: Grid, config: LifecycleConfig) -> None:
    for axis in grid.axes:
        *parents, name = axis.field.split(".")
        for model in models_at(LifecycleConfig, parents):
            info = model.model_fields.get(name)
            if info is not None and role_of(info) is RUNTIME:
                raise InputError(f"{axis.field} changes no result, so that its points would be one: give it one value")
        if axis.field == f"{STAGE}.exports" or field_type(LifecycleConfig, (*parents, name)) is None:
            raise InputError(f"{axis.field} is none of the fields that a sweep varies: fields of {STAGE} "
                             "(python -m steps.pretrain --help)")
        if config.start is not None and is_size(axis.field):
            raise InputError(f"{axis.field} describes a new model, and start.model is there already: leave start out")


def sweep_nodes(sweep: Sweep, question: Question, store: Path, together: int = TOGETHER) -> list[Node]:
    """Build the graph. Points that diverged in `store` before are left out, and the comparison names them.

    `together`: points that may share a process, where each has but one."""
    shared: dict[str, Node] = {}
    parts: dict[str, Node] = {}
    for config in sweep.points:
        *before, node = lifecycle(config)
        for each in before:
            shared.setdefault(each.id, each)
        inputs = {name: shared[other.id] for name, (other,) in node.upstream.items()}
        part = point_name(node.config)
        batch = together if node.resources.processes == 1 else 1
        parts.setdefault(part, replace(node, part=part, inputs=inputs, batch=batch))
    gone = _diverged([*shared.values()], parts, store.absolute())
    left = [node for part, node in parts.items() if part not in gone]
    asked = SweepConfig(
        axes=tuple(axis.field for axis in sweep.grid.axes), channel=question.channel,
        diverged=tuple(Diverged(name=part, config=parts[part].config.model_dump(mode="json")) for part in sorted(gone)),
        target_parameters=question.target_parameters)
    return [*shared.values(), *left, Node(NAME, NAME, asked, inputs={"points": left})]


def point_name(config: Any) -> str:
    """Name a point by its config: width, learning rate, weight decay, seed, and a digest of all that counts."""
    assert isinstance(config, PretrainConfig)
    text = json.dumps(config.identity(), sort_keys=True, ensure_ascii=False)
    digest = hashlib.sha256(text.encode()).hexdigest()[:_DIGITS]
    return (f"h{config.model.hidden_size}-lr{config.learning_rate:g}-wd{config.weight_decay:g}-s{config.seed}-{digest}"
            ).replace("+", "")


def _diverged(shared: Sequence[Node], parts: Mapping[str, Node], store: Path) -> set[str]:
    """Name the points that ended since their loss was no finite number, as it would be again."""
    if not store.is_dir():
        return set()
    graph = Graph([*shared, *parts.values()], Identities(store / IDENTITIES))
    return {part for part, node in parts.items()
            if DIVERGED in str(read_record(Path(graph.directory(node, str(store)), ERROR)).get("message", ""))}


def every_sweep_stage() -> list[Node]:
    """Build the graph of all stages that a sweep may have: what a cluster has a template for."""
    found: dict[str, Node] = {}
    every = every_stage()
    names = _up_to(every)
    for node in every:
        if node.name in names:
            inputs = [found[other.id] for others in node.upstream.values() for other in others]
            found[node.id] = replace(node, inputs={"upstream": inputs}, part="point" if node.name == STAGE else "")
    ends = [node for node in found.values() if node.name == STAGE]
    return [*found.values(), Node(NAME, NAME, SweepConfig(), inputs={"upstream": ends})]
