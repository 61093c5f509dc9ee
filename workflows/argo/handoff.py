"""The plan of a workflow as its pods get it: tasks of the DAG, batches of nodes, and the file in the store.

Nodes of one stage that depend on the same stages are one task. So the parts of a fan-out are one task with several
pods, and the evaluations of each training stage are a task of their own, which starts as soon as that stage is done.

`<store>/.argo/<workflow>/plan.json` holds the nodes and how they are dealt to batches; a batch is what one pod runs.
It is too large for Argo's parameters. Pods do not import Hera, which only `manifests` needs."""

import json
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import Field

from argosy.core.config.schema import Config, ParallelConfig
from argosy.core.errors import InputError
from argosy.core.store.files import make_directory, read_json, read_record, write_json
from workflows.graph import Node, Spending, definition
from workflows.plan import PlannedNode

FOLDER = ".argo"
REPORT = "report.json"  # beside plan.json: the directory of a night's report
OUTPUTS = "/tmp/argosy"  # where pods leave what Argo reads as output parameters and artifacts
COMMON = "common"  # output parameter: what the names of a task's batches have in common after its own name
WEBHOOK = "ARGOSY_WEBHOOK"  # the variable with a URL that is a secret
LABELS = "ARGOSY_LABELS"  # the variable with the workflow's labels, as JSON
PERSON = "argosy/person"  # label: who submitted it, as `argosy submit` says
# Labels of who submitted a workflow, the best first: Argo's server sets the first of them by its login (SSO).
_PERSONS = (*(f"workflows.argoproj.io/creator{kind}" for kind in ("-preferred-username", "-email", "")), PERSON)
GIVEN = "ARGOSY_PARAMETERS"  # the variable with the names of the workflow's parameters, misspelt ones too
Key = tuple[str, frozenset[str]]  # stage, stages that it depends on


@dataclass(frozen=True)
class Task:
    """A task of the DAG."""

    name: str
    """Unique: the stage's, or `<stage>-<the training stage>`."""
    stage: str
    own: frozenset[str]
    """Stages that its nodes depend on, and those of the stage's other tasks do not."""
    upstream: tuple[str, ...]
    """Names of the tasks that it depends on."""
    needs: str
    """The image that its step needs."""
    parts: bool = True
    """Whether its nodes are parts, which are dealt to pods; else it is one node."""
    several: bool = False
    """Whether its step may run on several nodes."""
    place: str = ""
    """The stage of the profile whose settings its pods take; empty: its own."""

    @property
    def placed(self) -> str:
        """Name the stage of the profile whose settings its pods take."""
        return self.place or self.stage

    @property
    def parameter(self) -> str:
        """Name of the plan's output parameter that lists its batches."""
        return f"run-{self.name}"


EVALUATE = Task("evaluate", "evaluate", own=frozenset(), upstream=(), needs="train")


def tasks_of(nodes: Iterable[Node]) -> list[Task]:
    """Group `nodes`, which come each after what it depends on, into tasks; so do the tasks."""
    upstream: dict[Key, dict[Key, None]] = {}
    needs: dict[Key, str] = {}
    parts: dict[Key, bool] = {}
    given = [*nodes]
    for node in given:
        key = _key(node)
        upstream.setdefault(key, {}).update((_key(other), None) for each in node.upstream.values() for other in each)
        needs[key], parts[key] = definition(node.step).needs, bool(node.part)
    several = {node.name for node in given if issubclass(definition(node.step).config, ParallelConfig)}
    own = {key: key[1] - frozenset.intersection(*(before for stage, before in upstream if stage == key[0]))
           for key in upstream}  # fmt: skip
    return [Task(_name(key, own), key[0], own[key], tuple(_name(other, own) for other in before), needs[key],
                 parts[key], several=not parts[key] and key[0] in several) for key, before in upstream.items()]


def nearest_upstream(tasks: Sequence[Task]) -> dict[str, list[str]]:
    """List, by task, the tasks that it depends on but not through another one of `tasks`, which come in order."""
    every: dict[str, set[str]] = {}
    for task in tasks:
        every[task.name] = {*task.upstream}.union(*(every.get(name, set()) for name in task.upstream))
    return {task.name: [name for name in task.upstream
                        if not any(name in every.get(other, set()) for other in task.upstream)]
            for task in tasks}  # fmt: skip


def assign(nodes: Sequence[PlannedNode], tasks: Sequence[Task]) -> dict[str, list[PlannedNode]]:
    """Assign nodes to tasks, by the task's name. A stage that `nodes` lack leaves its task empty. Raises InputError: a
    node has no task."""
    stage = {node.id: node.name for node in nodes}
    assigned: dict[str, list[PlannedNode]] = {task.name: [] for task in tasks}
    for node in nodes:
        upstream = {stage[other] for other in node.upstream}
        task = next((task for task in tasks if task.stage == node.name and task.own <= upstream), None)
        if task is None:
            raise InputError(f"the workflow has no task for {node.id}: install the WorkflowTemplate of this version")
        assigned[task.name].append(node)
    return assigned


def _key(node: Node) -> Key:
    return node.name, frozenset(other.name for each in node.upstream.values() for other in each)


def _name(key: Key, own: dict[Key, frozenset[str]]) -> str:
    return "-".join((key[0], *sorted(own[key]))).replace("_", "-")


class Batch(Config):
    """Nodes of one step that one pod runs one after the other."""

    task: str
    """Name of the DAG's task."""
    nodes: tuple[str, ...]
    """Ids."""
    pipeline: str = ""
    """The pipeline run, where it is not the handoff's: a night is about several model lines."""


class Handoff(Config):
    """The plan of a workflow."""

    store: str
    line: str
    """The model line."""
    pipeline: str
    """The digest by which the pipeline's run in MLflow is found."""
    nodes: Mapping[str, dict[str, Any]]
    """The nodes to run by id, as `PlannedNode` dumps; a pod validates its own ones alone."""
    batches: Mapping[str, Batch]
    """Batches by name, which is unique in the namespace: pods of the same work have the same name."""
    report: str = ""
    """Directory of the compare node."""
    also: Mapping[str, str] = Field(default_factory=dict)
    """Model lines of further pipeline runs, by pipeline."""
    namespace: str = ""
    """The workflow's; a store may be of several namespaces and clusters."""
    cluster: str = ""
    person: str = ""
    """The name of who submitted it, as far as its labels say."""
    budget: Spending = Spending()
    gpu_hour_price: float | None = None
    directories: tuple[str, ...] = ()
    """Directories of all nodes, done ones too, where there is a budget."""

    def write(self, workflow: str) -> Path:
        """Write it into the store; returns its path."""
        folder = make_directory(Path(self.store) / FOLDER / workflow)
        write_json(folder / "plan.json", self.model_dump(mode="json"))
        return folder / "plan.json"

    @property
    def pipelines(self) -> dict[str, str]:
        """Line by pipeline run."""
        return {self.pipeline: self.line, **self.also}

    def pipeline_of(self, batch: str) -> tuple[str, str]:
        pipeline = self.batches[batch].pipeline or self.pipeline
        return pipeline, self.pipelines[pipeline]

    def of(self, batch: str) -> list[PlannedNode]:
        return [PlannedNode.model_validate(self.nodes[node]) for node in self.batches[batch].nodes]


def submitter() -> str:
    """Return who submitted the workflow of this plan's pod; "" where its labels do not say."""
    labels = json.loads(os.environ.get(LABELS) or "{}")
    return next((labels[name] for name in _PERSONS if labels.get(name)), "")


def write_output(folder: Path, name: str, text: str) -> None:
    """Leave an output parameter in a pod, for Argo to read."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text(text, encoding="utf-8")


def read_handoff(path: Path) -> Handoff:
    """Read what a plan wrote. Raises InputError: it is not there, or another version's."""
    try:
        return Handoff.model_validate(read_json(path))
    except ValueError as error:
        raise InputError(f"{path} is another version's plan ({error}); submit the workflow again") from None


def report_directory(folder: Path) -> str:
    """Return the directory of the report of a workflow's `folder`: a night's, else its comparison's; "" before one."""
    found, plan = read_record(folder / REPORT).get("report"), folder / "plan.json"
    return str(found or (read_handoff(plan).report if plan.is_file() else ""))


def deal(task: str, nodes: Sequence[PlannedNode], pipeline: str, most: int) -> dict[str, Batch]:
    """Deal a task's nodes to at most `most` batches, by name.

    A node without parts is a batch called as its directory, so that two workflows that share it take turns. Parts
    are dealt in turn, so that neighbours, which cost alike, are spread; a batch holds at least as many as may share
    a process (their `batch`), where there are so many."""
    if not nodes or not nodes[0].part:
        return {Path(node.dir).name: Batch(task=task, nodes=(node.id,)) for node in nodes}
    count = min(most, -(-len(nodes) // max(1, nodes[0].batch)))
    width = len(str(count))
    return {f"{task}-{pipeline}-{n + 1:0{width}}of{count}": Batch(task=task, nodes=tuple(
        node.id for node in nodes[n::count])) for n in range(count)}
