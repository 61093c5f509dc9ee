"""What the plan hands to the tasks: a file in the store, too large for parameters, that each pod reads.

`<store>/.argo/<workflow>/plan.json` holds the nodes and how they are dealt to batches; a batch is what one pod
runs. Beside it, `attempts/<batch>.json` counts how a batch's pods ended, so that the retry limits hold by cause.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic import Field

from argosy.config import Config
from argosy.errors import InputError
from argosy.storage import make_directory, read_json, read_record, write_json
from workflows.plan import PlannedNode

FOLDER = ".argo"


class Batch(Config):
    """Nodes of one step that one pod runs one after the other.

    Attributes:
        task: name of the DAG's task.
        nodes: their ids.
        pipeline: where it is not the handoff's: a night is about several model lines.
    """

    task: str
    nodes: tuple[str, ...]
    pipeline: str = ""


class Handoff(Config):
    """The plan of a workflow.

    Attributes:
        line: the model line; pipeline: what its run in MLflow is found by.
        nodes: those that are to run, by id, as `PlannedNode` dumps; a pod reads its own ones alone.
        batches: by name, which is unique in the namespace: pods of the same work have the same name.
        report: directory of the compare node.
        also: further pipeline runs of other model lines: line by pipeline.
        namespace, cluster: where the workflow is: a store may be of several.
    """

    store: str
    line: str
    pipeline: str
    nodes: Mapping[str, dict[str, Any]]
    batches: Mapping[str, Batch]
    report: str = ""
    also: Mapping[str, str] = Field(default_factory=dict)
    namespace: str = ""
    cluster: str = ""

    def write(self, workflow: str) -> Path:
        """Put it into the store; returns its path."""
        folder = make_directory(Path(self.store) / FOLDER / workflow)
        write_json(folder / "plan.json", self.model_dump(mode="json"))
        return folder / "plan.json"

    @property
    def pipelines(self) -> dict[str, str]:
        """Line by pipeline run."""
        return {self.pipeline: self.line, **self.also}

    def pipeline_of(self, batch: str) -> tuple[str, str]:
        """The pipeline run of a batch, and its model line."""
        pipeline = self.batches[batch].pipeline or self.pipeline
        return pipeline, self.pipelines[pipeline]

    def of(self, batch: str) -> list[PlannedNode]:
        """The nodes of a batch."""
        return [PlannedNode.model_validate(self.nodes[node]) for node in self.batches[batch].nodes]


def read_handoff(path: Path) -> Handoff:
    """What a plan wrote.

    Raises:
        InputError: it is not there, or another version's.
    """
    try:
        return Handoff.model_validate(read_json(path))
    except ValueError as error:
        raise InputError(f"{path} is another version's plan ({error}); submit the workflow again") from None


def deal(task: str, nodes: Sequence[PlannedNode], pipeline: str, most: int) -> dict[str, Batch]:
    """Deal a task's nodes to at most `most` batches, by name.

    A node without parts is a batch called as its directory, so that two workflows that share it take turns. Parts
    are dealt in turn, so that neighbours, which cost alike, are spread; a batch holds at least as many as may share
    a process (their `batch`), where there are so many.
    """
    if not nodes or not nodes[0].part:
        return {Path(node.dir).name: Batch(task=task, nodes=(node.id,)) for node in nodes}
    count = min(most, -(-len(nodes) // max(1, nodes[0].batch)))
    width = len(str(count))
    return {
        f"{task}-{pipeline}-{n + 1:0{width}}of{count}": Batch(
            task=task, nodes=tuple(node.id for node in nodes[n::count])
        )
        for n in range(count)
    }


class Attempts(Config):
    """How a batch's pods ended so far: by failing, for want of memory."""

    failures: int = 0
    out_of_memory: int = 0

    @classmethod
    def read(cls, plan: Path, batch: str) -> Attempts:
        """What `write` noted."""
        return cls.model_validate(read_record(_attempts(plan, batch)))

    def write(self, plan: Path, batch: str) -> None:
        """Note it beside the plan."""
        path = _attempts(plan, batch)
        make_directory(path.parent)
        write_json(path, self.model_dump())


def _attempts(plan: Path, batch: str) -> Path:
    return plan.parent / "attempts" / f"{batch}.json"
