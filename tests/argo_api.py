"""A small HTTP server with the few endpoints of Kubernetes that the command line uses, and Workflow objects as Argo 4.1
gives them: a DAG of `plan` and tasks with withParam and retries."""

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import yaml

from tests import servers

Json = dict[str, Any]
TOKEN = "a-token"
CUSTOM = "/apis/argoproj.io/v1alpha1/namespaces/argosy"
CORE = "/api/v1/namespaces/argosy"


@dataclass
class Api:
    """What the server knows, what it was asked, and how it is to fail.

    Attributes:
        objects: by path, read with GET; a function is called.
        logs: of pods, by name.
        asked: method, path, query and body of each request.
        faults: statuses with which the next requests are answered; 0 breaks the connection.
        later: what a workflow becomes, a step at each GET.
        plan: of what is submitted."""

    url: str = ""
    objects: dict[str, Any] = field(default_factory=dict)
    workflows: dict[str, Json] = field(default_factory=dict)
    logs: dict[str, str] = field(default_factory=dict)
    asked: list[tuple[str, str, dict[str, str], Json]] = field(default_factory=list)
    faults: list[int] = field(default_factory=list)
    later: dict[str, list[Json]] = field(default_factory=dict)
    plan: "Pod" = field(default_factory=lambda: Pod())

    def bodies(self, method: str) -> list[Json]:
        """Of all requests with `method`."""
        return [body for asked, _, _, body in self.asked if asked == method]

    def answer(self, method: str, path: str, query: dict[str, str], body: Json) -> tuple[int, Any]:
        """Status and body: an object, or text."""
        prefix = f"{CUSTOM}/workflows"
        if path == prefix and method == "POST":
            return 200, self._create(body)
        if path == prefix:
            return 200, {"items": [{"metadata": each["metadata"]} for each in self.workflows.values()]}
        if path.startswith(prefix + "/"):
            name = path.removeprefix(prefix + "/")
            if name not in self.workflows:
                return 404, _not_found(f'workflows.argoproj.io "{name}"')
            if self.later.get(name) and method == "GET":
                self.workflows[name] = self.later[name].pop(0)
            return 200, self.workflows[name]
        if path.startswith(f"{CORE}/pods/") and path.endswith("/log"):
            pod = path.split("/")[-2]
            return (200, self.logs[pod]) if pod in self.logs else (404, _not_found(f'pods "{pod}"'))
        found = self.objects.get(path)
        if callable(found):
            found = found(query, body)
        if found is None and path == CORE:
            found = {"metadata": {"name": "argosy"}}
        return (200, found) if found is not None else (404, _not_found(path))

    def _create(self, given: Json) -> Json:
        name = f"{given['metadata']['generateName']}{len(self.workflows) + 1}"
        given["metadata"] |= {"name": name, "creationTimestamp": f"2026-01-01T00:00:{len(self.workflows):02}Z"}
        self.workflows[name] = given | {"status": workflow(name, plan=self.plan)["status"]}
        return given


@contextmanager
def serving(api: Api) -> Iterator[Api]:
    """`api` answers at `api.url` meanwhile."""
    with servers.serving(_handler(api)) as api.url:
        yield api


def kubeconfig(folder: Path, url: str, namespace: str = "argosy") -> Path:
    """A kubeconfig for `url`, with contexts `here` and `other`."""
    context = {"cluster": "fake", "user": "me", "namespace": namespace}
    path = folder / "kubeconfig"
    path.write_text(yaml.safe_dump({
        "apiVersion": "v1", "kind": "Config", "current-context": "here",
        "clusters": [{"name": "fake", "cluster": {"server": url}}],
        "users": [{"name": "me", "user": {"token": TOKEN}}],
        "contexts": [{"name": "here", "context": context}, {"name": "other", "context": context}]}))  # fmt: skip
    return path


def _not_found(what: str) -> Json:
    return {"code": 404, "message": f"{what} not found"}


def _handler(api: Api) -> type[servers.Handler]:
    class Cluster(servers.Handler):
        def do_GET(self) -> None:
            parts = urlsplit(self.path)
            query, body = dict(parse_qsl(parts.query)), json.loads(self.body() or b"{}")
            api.asked.append((self.command, parts.path, query, body))
            fault = api.faults.pop(0) if api.faults else None
            if fault == 0:
                self.close_connection = True
            elif fault:
                self._answer(fault, {"message": "for a while"})
            elif self.headers.get("Authorization") != f"Bearer {TOKEN}":
                self._answer(401, {"message": "Unauthorized"})
            else:
                self._answer(*api.answer(self.command, parts.path, query, body))

        do_POST = do_PUT = do_PATCH = do_DELETE = do_GET

        def _answer(self, status: int, answer: Any) -> None:
            self.reply(status, answer.encode() if isinstance(answer, str) else json.dumps(answer).encode())

    return Cluster


PHASE_LABEL = "workflows.argoproj.io/phase"
SUMMARY = "NODE  PARTS  WHY\ndata  run  never run\n{todo} of 9 nodes to run, store /store/runs"
DAG = ("data", "clean", "tokenize", "evaluate-sft")


@dataclass(frozen=True)
class Pod:
    """An attempt. Times are seconds after the workflow's start."""

    phase: str = "Succeeded"
    start: int = 10
    end: int = 20
    code: int | None = 0
    message: str = ""
    progress: str = "1/1"


def workflow(name: str = "lifecycle-1", phase: str = "Running",
             batches: Mapping[str, Mapping[str, Sequence[Pod]]] | None = None, *, plan: Pod | None = None,
             finish: Pod | None = None, blocked: Sequence[str] = (), skipped: Sequence[str] = (), message: str = "",
             asked: int | None = None) -> Json:
    """`batches`: attempts by batch by task. `asked`: how many batches the plan asked for; default: as many as there."""
    batches = batches or {}
    nodes: list[Json] = [_node(name, name, "DAG", phase)]
    if plan:
        todo = sum(map(len, batches.values())) if asked is None else asked
        names = [batch for given in batches.values() for batch in given]
        names += [f"b{n}" for n in range(todo - len(names))]
        outputs = [{"name": "run-data", "value": json.dumps(names[:todo])},
                   {"name": "summary", "value": SUMMARY.format(todo=todo)}]  # fmt: skip
        nodes += _retry(f"{name}.plan", name, "plan", [plan], outputs)
    for task, given in batches.items():
        alone = len(given) == 1 and not task.startswith("evaluate")  # one node: called by its plain name
        found = [_retry(f"{name}.{task}" if alone else f"{name}.{task}({n}:{item(batch)})", name, "step", given[batch],
                        batch=batch) for n, batch in enumerate(given)]  # fmt: skip
        if alone:
            nodes += found[0]
            continue
        group = _node(f"{name}.{task}", name, "TaskGroup", _worst([each[0]["phase"] for each in found]))
        nodes += [group, *(node for each in found for node in each)]
    nodes += [_node(f"{name}.{task}", name, "Skipped", "Omitted", "omitted: depends condition not met")
              for task in blocked]  # fmt: skip
    nodes += [_node(f"{name}.{task}", name, "Skipped", "Skipped", "Skipped, empty params") for task in skipped]
    if finish:
        nodes += _retry(f"{name}.onExit.finish", name, "finish", [finish])
    by_id = {node["id"]: node for node in nodes}
    status: Json = {"phase": phase, "startedAt": _at(0), "nodes": by_id, "message": message}
    if phase != "Running":
        status["finishedAt"] = _at(100)
    tasks = [{"name": each, "template": "step"} for each in ("plan", *DAG)]
    parameters = [{"name": "preset", "value": "tiny"}]
    status["storedWorkflowTemplateSpec"] = {
        "entrypoint": "main", "templates": [{"name": "main", "dag": {"tasks": tasks}}],
        "arguments": {"parameters": [*parameters, {"name": "profile", "value": "laptop"}]}}  # fmt: skip
    return {
        "metadata": {"name": name, "namespace": "argosy", "creationTimestamp": _at(0),
                     "labels": {"argosy/pipeline": "lifecycle", PHASE_LABEL: phase}},
        "spec": {"workflowTemplateRef": {"name": "lifecycle"}, "arguments": {"parameters": parameters}},
        "status": status}  # fmt: skip


def template(**enums: list[str]) -> Json:
    """A WorkflowTemplate with the parameters of this version."""
    names = ("preset", "config", "overrides", "from", "to", "profile", "image-tag", "priority")
    defaults = {"preset": "demo", "profile": "laptop"}
    parameters = [{"name": each, "value": defaults.get(each, "")} | ({"enum": enums[each]} if each in enums else {})
                  for each in names]  # fmt: skip
    return {"metadata": {"name": "lifecycle", "namespace": "argosy"}, "spec": {"arguments": {"parameters": parameters}}}


def identity(node: str, name: str) -> str:
    """Node id: the workflow's name and the FNV-1a hash of the node's (Argo's `NodeID`)."""
    value = 0x811C9DC5
    for byte in node.encode():
        value = (value ^ byte) * 0x01000193 % 2**32
    return name if node == name else f"{name}-{value}"


def item(batch: str) -> str:
    """What the display name of a batch's node holds of its name."""
    return batch.rpartition("-")[2]


def _retry(node: str, name: str, template: str, pods: Sequence[Pod], outputs: Sequence[Json] = (),
           batch: str = "") -> list[Json]:
    tries = [_pod(f"{node}({n})", name, template, pod) for n, pod in enumerate(pods)]
    last = pods[-1]
    phase = "Running" if last.phase == "Pending" else last.phase
    top = _node(node, name, "Retry", phase)
    top |= {"children": [each["id"] for each in tries], "startedAt": _at(pods[0].start)}
    if batch:
        top["inputs"] = {"parameters": [{"name": "batch", "value": batch}, {"name": "memory", "value": "1000"}]}
    if phase == "Succeeded":
        top["outputs"] = {"exitCode": "0", "parameters": list(outputs)}
    elif phase == "Failed":
        top["message"] = "retryStrategy.expression evaluated to false"
    return [top, *tries]


def _pod(node: str, name: str, template: str, pod: Pod) -> Json:
    found = _node(node, name, "Pod", pod.phase, pod.message)
    found |= {"templateName": template, "startedAt": _at(pod.start), "progress": pod.progress}
    if pod.phase in ("Succeeded", "Failed", "Error"):
        found["finishedAt"] = _at(pod.end)
        if pod.code is not None:
            found["outputs"] = {"exitCode": str(pod.code)}
    return found


def _node(node: str, name: str, kind: str, phase: str, message: str = "") -> Json:
    found = {"id": identity(node, name), "name": node, "type": kind, "phase": phase, "startedAt": _at(0)}
    return found | ({"message": message} if message else {})


def _worst(phases: Sequence[str]) -> str:
    return next((phase for phase in ("Running", "Error", "Failed") if phase in phases), "Succeeded")


def _at(second: int) -> str:
    return f"2026-01-01T00:{second // 60:02}:{second % 60:02}Z"
