"""A Workflow object as tasks and pods, with the laptop's words for their states.

A task of the DAG is a node `TaskGroup` over its batches; each batch is a node `Retry` over the pods that tried it."""

import base64
import gzip
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property
from typing import Any, Literal

from argosy.core.errors import InputError
from workflows.argo.attempts import SHUTDOWN

Json = dict[str, Any]
State = Literal["pending", "running", "done", "failed", "stopped", "skipped", "blocked"]
PHASES: Mapping[str, State] = {
    "Pending": "pending", "Running": "running", "Succeeded": "done", "Failed": "failed", "Error": "failed",
    "Skipped": "skipped", "Omitted": "blocked", "": "pending"}  # fmt: skip
OVER = ("done", "failed", "stopped")
PLAN, FINISH = "plan", "finish"
WRONG_INPUT = 2  # exit code
STOPPED = re.compile(SHUTDOWN)
EXECUTOR = re.compile(r"\blevel=(DEBUG|INFO) .*\bargo=true\b")  # a line that Argo adds to a log
_REASON = re.compile(r"^main: \w+ \(exit code \d+\): ", re.DOTALL)
_BATCH_OF = re.compile(r"-(\d+of\d+)$")
_NIGHT = re.compile(r"\S.* cells to evaluate, ")  # what each is compared with, and which cells, stands below
_LONGEST_PREFIX = 242  # of a pod's name: 253 less a hash of 10 digits and a hyphen


@dataclass(frozen=True)
class Unit:
    """The work of one pod, over all its attempts."""

    task: str
    label: str
    """The task's name, or `task/1of3` where the parts of a stage are dealt to several pods."""
    batch: str
    """Its name in the plan; that of the directory in the store where it is one node."""
    state: State
    message: str
    exit_code: int | None
    attempts: tuple[Json, ...]
    """The pods' nodes, in order."""
    started: float
    seconds: float
    """From the first pod's start to the last one's end; 0 while it runs."""
    waits: str = ""
    """Why it has not started, where Kubernetes or Argo says."""

    @property
    def progress(self) -> float:
        """Share that is done, as its pod last said."""
        done, _, total = str(self.attempts[-1].get("progress", "0/1") if self.attempts else "0/1").partition("/")
        return int(done) / int(total or 1) if int(total or 1) > 1 else 0.0


def unit_of(workflow: str, node: Json, nodes: Mapping[str, Json]) -> Unit:
    """Build the unit of a node `Retry`, or of a pod that is not retried."""
    # A batch's children are its attempts; what comes after the batch is a child of its last attempt.
    tried = (nodes[child] for child in node.get("children") or [] if child in nodes)
    pods = [pod for pod in tried if pod["name"].startswith(f"{node['name']}(")] if node["type"] == "Retry" else [node]
    last = pods[-1] if pods else node
    said = str(last.get("message") or node.get("message") or "")
    state = PHASES.get(node.get("phase", ""), "pending")
    if state == "failed" and STOPPED.search(f"{last.get('message', '')} {node.get('message', '')}"):
        state = "stopped"
    elif state == "running" and last.get("phase", "Pending") == "Pending":
        state = "pending"
    starts = (seconds(pod.get("startedAt")) for pod in pods if pod.get("phase") != "Pending")
    began = min(filter(None, starts), default=0.0)
    ended = max((seconds(pod.get("finishedAt")) for pod in pods), default=0.0)
    code = (last.get("outputs") or {}).get("exitCode")
    task, label, batch = _names(workflow, node)
    # The reason of a failure as the pod gave it, without what Argo and its executor add to it.
    message = "\n".join(line for line in _REASON.sub("", said).splitlines() if not EXECUTOR.search(line)).strip()
    return Unit(
        task=task, label=label, batch=batch, state=state, message=message,
        exit_code=int(code) if code is not None else None, attempts=tuple(pods), started=began,
        seconds=max(0.0, ended - began) if state in OVER and began else 0.0,
        waits=said if state == "pending" and said not in ("PodInitializing", "ContainerCreating") else "")  # fmt: skip


def _names(workflow: str, node: Json) -> tuple[str, str, str]:
    """Split `wf.task(0:1of3)`, `wf.task`, `wf.posttraining(0:chat).sft(0:chat)` or `wf.onExit.finish` into task, label
    and batch, which is an input."""
    name = str(node["name"]).removeprefix(workflow).removeprefix(".")
    if name.split(".")[0] == "onExit":
        return FINISH, FINISH, FINISH
    task, _, item = name.partition("(")
    task = task.partition(".")[0]  # `report.show` is the pod of `report`
    if ")." in name:  # inside the tree of post-training each item is a task of its own, and so are its evaluations
        kind, _, item = name.rpartition(").")[2].partition("(")  # `sft(0:chat)`, `evaluate(1:chat-2of3)`
        of = item.partition(":")[2].removesuffix(")").replace("_", "-")
        of = f"{of}-{kind}" if kind == "nodes" else of  # its JobSet
        task = f"{kind}-{_BATCH_OF.sub('', of)}" if _BATCH_OF.search(of) else of
    inputs = {each["name"]: each.get("value") for each in (node.get("inputs") or {}).get("parameters") or []}
    batch = str(inputs.get("batch") or item.partition(":")[2].removesuffix(")") or task)
    part = _BATCH_OF.search(batch)
    return task, f"{task}/{part[1]}" if part and part[1] != "1of1" else task, batch


def parameters_of(spec: Json | None) -> dict[str, Json]:
    """Return the parameters of a workflow's or template's spec, by name."""
    return {each["name"]: each for each in ((spec or {}).get("arguments") or {}).get("parameters") or []}


def seconds(time: str | None) -> float:
    """Parse an API's timestamp into Unix time; 0 for none."""
    return datetime.fromisoformat(time).timestamp() if time else 0.0


def pod_name(workflow: Json, node: Json) -> str:
    """Name a node's pod (GeneratePodName of Argo's workflow/util/pod_name.go)."""
    prefix = f"{workflow['metadata']['name']}-{node['templateName']}"[:_LONGEST_PREFIX]
    return f"{prefix}-{node['id'].rpartition('-')[2]}"


@dataclass(frozen=True)
class Task:
    """A task of the DAG and its pods."""

    name: str
    state: State
    units: tuple[Unit, ...] = ()
    message: str = ""


@dataclass(frozen=True)
class View:
    """A workflow. Build it with `view`."""

    workflow: Json
    nodes: Mapping[str, Json] = field(default_factory=dict)

    @property
    def name(self) -> str:
        return str(self.workflow["metadata"]["name"])

    @property
    def status(self) -> Json:
        """Status of the object, {} before the controller has seen it."""
        return self.workflow.get("status") or {}

    @property
    def phase(self) -> str:
        """Pending, Running, Succeeded, Failed or Error; the exit handler may still run in the last three."""
        return str(self.status.get("phase") or "Pending")

    @property
    def over(self) -> bool:
        """Whether nothing of it will happen any more."""
        return bool(self.status.get("finishedAt"))

    @property
    def stopped(self) -> bool:
        said = self.workflow.get("spec", {}).get("shutdown") or STOPPED.search(str(self.status.get("message", "")))
        return bool(said) and self.phase != "Succeeded"

    @cached_property
    def units(self) -> tuple[Unit, ...]:
        """The pods, in the order in which they started."""
        attempts = {child for node in self.nodes.values() if node["type"] == "Retry"
                    for child in node.get("children") or []}  # fmt: skip
        heads = [node for node in self.nodes.values() if node["type"] == "Retry"
                 or (node["type"] in ("Pod", "Suspend") and node["id"] not in attempts)]
        heads = [node for node in heads if ")[" not in node["name"]]  # a step of an attempt, as of a JobSet's
        units = [unit_of(self.name, node, self.nodes) for node in heads]
        return tuple(sorted(units, key=lambda unit: (unit.started or float("inf"), unit.label)))

    @cached_property
    def tasks(self) -> tuple[Task, ...]:
        """The tasks in the order of the template, those without a pod too."""
        spec = self.status.get("storedWorkflowTemplateSpec") or self.workflow.get("spec") or {}
        dags = [each["dag"] for each in spec.get("templates") or []
                if each["name"] == spec.get("entrypoint") and "dag" in each]
        names = [each["name"] for dag in dags for each in dag.get("tasks") or []]
        return tuple(map(self._task, dict.fromkeys([*names, *(unit.task for unit in self.units)])))

    @property
    def total(self) -> int | None:
        """Number of pods of steps that the plan asked for; None before it is done."""
        return len(self.planned) if self._plan_outputs() else None

    @cached_property
    def planned(self) -> frozenset[str]:
        """Names of the batches that the plan asked for."""
        lists = [value for name, value in self._plan_outputs().items() if name.startswith("run-")]
        return frozenset(batch for each in lists for batch in json.loads(each))

    @property
    def plan(self) -> Unit | None:
        """The pod that plans; None before there is one."""
        return next((unit for unit in self.units if unit.task == PLAN), None)

    @property
    def plan_line(self) -> str:
        """The last line of the plan's summary; of a night, the line of each model line."""
        lines = self._plan_outputs().get("summary", "").strip().splitlines()
        return "; ".join([line for line in lines if _NIGHT.match(line)] or lines[-1:])

    @property
    def parameters(self) -> dict[str, str]:
        """The workflow's parameters, with the template's defaults."""
        specs = (self.status.get("storedWorkflowTemplateSpec"), self.workflow.get("spec"))
        return {name: str(each.get("value", "")) for spec in specs for name, each in parameters_of(spec).items()}

    @property
    def exit_code(self) -> int:
        """The exit code as on the laptop: 0; 1; 2 where something failed for wrong input."""
        if self.phase == "Succeeded":
            return 0
        wrong = any(unit.state == "failed" and unit.exit_code == WRONG_INPUT for unit in self.units)
        return 2 if wrong or str(self.status.get("message", "")).startswith("invalid spec") else 1

    def _plan_outputs(self) -> dict[str, str]:
        for node in self.nodes.values():
            if node["name"] == f"{self.name}.{PLAN}" and node.get("phase") == "Succeeded":
                outputs = (node.get("outputs") or {}).get("parameters") or []
                return {each["name"]: str(each.get("value", "")) for each in outputs}
        return {}

    def _task(self, name: str) -> Task:
        units = tuple(unit for unit in self.units if unit.task == name)
        own = next((node for node in self.nodes.values() if node["name"] == f"{self.name}.{name}"), {})
        state = PHASES.get(own.get("phase", ""), "pending") if own or not units else units[-1].state
        for worst in ("failed", "stopped", "running"):  # a group that has failed parts may still run others
            if any(unit.state == worst for unit in units):
                state = worst
        if state == "blocked" and self.phase == "Succeeded":
            state = "skipped"  # nothing failed: a node that it needs was outside of the range
        return Task(name, state, units, str(own.get("message", "")))


def view(workflow: Json) -> View:
    """View a workflow, with nodes that Argo compressed unpacked. Raises InputError: its nodes are kept elsewhere."""
    status = workflow.get("status") or {}
    nodes: Any = status.get("nodes") or {}
    if not nodes and status.get("compressedNodes"):
        nodes = json.loads(gzip.decompress(base64.b64decode(status["compressedNodes"])))
    if not nodes and status.get("offloadNodeStatusVersion"):
        raise InputError("the nodes of this workflow are in the controller's database: Argo's UI shows them")
    return View(workflow, nodes)
