"""The tasks of the WorkflowTemplate's DAG: nodes of one stage that depend on the same stages are one task.

So the parts of a fan-out are one task with several pods, and the evaluations of each training stage are a task of
their own, which starts as soon as that stage is done.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from argosy.errors import InputError
from workflows.node import definition
from workflows.plan import PlannedNode

Key = tuple[str, frozenset[str]]  # stage, stages that it depends on


@dataclass(frozen=True)
class Task:
    """A task of the DAG.

    Attributes:
        name: unique; the stage's, or `<stage>-<what tells it apart>`.
        stage: the nodes' name.
        own: stages that its nodes depend on, and those of the stage's other tasks do not.
        upstream: names of the tasks that it depends on.
        needs: the image that its step needs.
    """

    name: str
    stage: str
    own: frozenset[str]
    upstream: tuple[str, ...]
    needs: str

    @property
    def parameter(self) -> str:
        """Name of the plan's output parameter that lists its batches."""
        return f"run-{self.name}"


def tasks_of(nodes: Sequence[PlannedNode]) -> list[Task]:
    """The tasks of `nodes`, which come each after what it depends on; so do the tasks."""
    keys = _keys(nodes)
    own = _own(keys.values())
    found: dict[Key, dict[Key, None]] = {}
    needs: dict[Key, str] = {}
    for node in nodes:
        key = keys[node.id]
        found.setdefault(key, {}).update((keys[other], None) for other in node.upstream)
        needs[key] = definition(node.step).needs
    return [
        Task(_name(key, own), key[0], own[key], tuple(_name(other, own) for other in before), needs[key])
        for key, before in found.items()
    ]


def assign(nodes: Sequence[PlannedNode], tasks: Sequence[Task]) -> dict[str, list[PlannedNode]]:
    """The nodes of each task, by its name. A stage that `nodes` lack leaves its task empty.

    Raises:
        InputError: a node has no task.
    """
    keys = _keys(nodes)
    assigned: dict[str, list[PlannedNode]] = {task.name: [] for task in tasks}
    for node in nodes:
        stage, upstream = keys[node.id]
        task = next((task for task in tasks if task.stage == stage and task.own <= upstream), None)
        if task is None:
            raise InputError(f"the workflow has no task for {node.id}: install the WorkflowTemplate of this version")
        assigned[task.name].append(node)
    return assigned


def _keys(nodes: Sequence[PlannedNode]) -> dict[str, Key]:
    stage = {node.id: node.name for node in nodes}
    return {node.id: (node.name, frozenset(stage[other] for other in node.upstream)) for node in nodes}


def _own(keys: Iterable[Key]) -> dict[Key, frozenset[str]]:
    by_stage: dict[str, list[Key]] = {}
    for key in dict.fromkeys(keys):
        by_stage.setdefault(key[0], []).append(key)
    own = {}
    for same in by_stage.values():
        common = frozenset.intersection(*(upstream for _, upstream in same))
        own.update({key: key[1] - common if len(same) > 1 else frozenset() for key in same})
    return own


def _name(key: Key, own: dict[Key, frozenset[str]]) -> str:
    return "-".join((key[0], *sorted(own[key]))).replace("_", "-")
