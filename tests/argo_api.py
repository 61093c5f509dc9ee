"""A small HTTP server with the few endpoints of Kubernetes that the command line uses."""

import json
from collections.abc import Iterator
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
    """

    url: str = ""
    objects: dict[str, Any] = field(default_factory=dict)
    workflows: dict[str, Json] = field(default_factory=dict)
    logs: dict[str, str] = field(default_factory=dict)
    asked: list[tuple[str, str, dict[str, str], Json]] = field(default_factory=list)
    faults: list[int] = field(default_factory=list)
    later: dict[str, list[Json]] = field(default_factory=dict)

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

    def _create(self, workflow: Json) -> Json:
        name = f"{workflow['metadata']['generateName']}{len(self.workflows) + 1}"
        created = f"2026-01-01T00:00:{len(self.workflows):02}Z"
        workflow["metadata"] |= {"name": name, "creationTimestamp": created}
        self.workflows[name] = workflow
        return workflow


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
        "contexts": [{"name": "here", "context": context}, {"name": "other", "context": context}],
    }))  # fmt: skip
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
