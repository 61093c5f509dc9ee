"""A Workflow object as tasks and pods, with the laptop's words for their states.

A task of the DAG is a node `TaskGroup` over its batches; each batch is a node `Retry` over the pods that tried it."""

import base64
import gzip
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from argosy.core.errors import InputError
from workflows.argo.client.transport import Json
from workflows.argo.client.unit import PHASES, STOPPED, State, Unit, unit_of

PLAN = "plan"
WRONG_INPUT = 2  # exit code
_NIGHT = re.compile(r"\S.* cells to evaluate, ")  # what each is compared with, and which cells, stands below


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
        """The workflow's name."""
        return str(self.workflow["metadata"]["name"])

    @property
    def status(self) -> Json:
        """Its status, {} before the controller has seen it."""
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
        """Whether somebody stopped it."""
        said = self.workflow.get("spec", {}).get("shutdown") or STOPPED.search(str(self.status.get("message", "")))
        return bool(said) and self.phase != "Succeeded"

    @cached_property
    def units(self) -> tuple[Unit, ...]:
        """The pods, in the order in which they started."""
        attempts = {child for node in self.nodes.values() if node["type"] == "Retry"
                    for child in node.get("children") or []}  # fmt: skip
        heads = [node for node in self.nodes.values() if node["type"] == "Retry"
                 or (node["type"] in ("Pod", "Suspend") and node["id"] not in attempts)]  # fmt: skip
        units = [unit_of(self.name, node, self.nodes) for node in heads]
        return tuple(sorted(units, key=lambda unit: (unit.started or float("inf"), unit.label)))

    @cached_property
    def tasks(self) -> tuple[Task, ...]:
        """The tasks in the order of the template, those without a pod too."""
        names = [each["name"] for each in self._dag()] or [unit.task for unit in self.units]
        return tuple(map(self._task, dict.fromkeys([*names, *(unit.task for unit in self.units)])))

    @property
    def total(self) -> int | None:
        """Number of pods of steps that the plan asked for; None before it is done."""
        outputs = self._plan_outputs()
        lists = [json.loads(value) for name, value in outputs.items() if name.startswith("run-")]
        return sum(map(len, lists)) if outputs else None

    @cached_property
    def planned(self) -> frozenset[str]:
        """Names of the batches that the plan asked for."""
        outputs = self._plan_outputs()
        return frozenset(b for name, value in outputs.items() if name.startswith("run-") for b in json.loads(value))

    @property
    def plan_line(self) -> str:
        """The last line of the plan's summary; of a night, the line of each model line."""
        lines = self._plan_outputs().get("summary", "").strip().splitlines()
        return "; ".join([line for line in lines if _NIGHT.match(line)] or lines[-1:])

    @property
    def parameters(self) -> dict[str, str]:
        """The workflow's parameters, with the template's defaults."""
        found: dict[str, str] = {}
        for spec in (self.status.get("storedWorkflowTemplateSpec"), self.workflow.get("spec")):
            for each in ((spec or {}).get("arguments") or {}).get("parameters") or []:
                found[each["name"]] = str(each.get("value", ""))
        return found

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

    def _dag(self) -> list[Json]:
        spec = self.status.get("storedWorkflowTemplateSpec") or self.workflow.get("spec") or {}
        for template in spec.get("templates") or []:
            if template["name"] == spec.get("entrypoint") and "dag" in template:
                return list(template["dag"].get("tasks") or [])
        return []

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
        raise InputError("the nodes of this workflow are in the controller's database: ask the Argo server (--server)")
    return View(workflow, nodes)
