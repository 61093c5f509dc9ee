"""The interface of a cluster's workflows, the requests that it is made of (JSON in, JSON out, errors that people
understand), and the Workflow object that a submission creates."""

import contextlib
import json
import urllib.parse
import warnings
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from argosy.core.config.explain import likely
from argosy.core.config.schema import Role
from argosy.core.errors import ArgosyError, InputError
from argosy.core.store.remote import is_uri
from workflows.argo.client.view import Json, parameters_of
from workflows.lifecycle import LifecycleConfig, lifecycle

TIMEOUT_S = 30.0
_SHOWN = 1000  # characters of an answer that an error shows
_HINTS = {401: "; give a token that is valid (ARGO_TOKEN), or log in again with the kubeconfig's tool",
          403: "; ask for the right, or use another --context or token"}  # fmt: skip
_FAILURES = {"CERTIFICATE_VERIFY_FAILED": "; with --insecure its certificate is not checked",
             "WRONG_VERSION_NUMBER": "; it speaks plain http: give its URL with http://",
             "record layer": "; it speaks plain http: give its URL with http://",
             "RemoteDisconnected": "; does it speak https?", "BadStatusLine": "; does it speak https?"}  # fmt: skip


class ApiError(ArgosyError):
    """An API refused, or did not answer: `status` is the HTTP status, 0 where no answer came.

    `passing`: worth another attempt, as it is the API's trouble and not the request's."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.passing = status in (0, 429) or status >= 500
        self.exit_code = 1 if self.passing else 2


class Transport:
    """One API: `settings` (a kubernetes.client.Configuration) has its address, credentials and proxies.

    Attributes:
        where: what errors call it."""

    def __init__(self, settings: Any, where: str) -> None:
        from kubernetes import client  # here, since it takes a second
        from urllib3.exceptions import InsecureRequestWarning

        if not settings.verify_ssl:  # as --insecure asks
            warnings.simplefilter("ignore", InsecureRequestWarning)
        settings.retries = False  # whoever asks tries again
        self._api, self.where = client.ApiClient(settings), where

    @contextlib.contextmanager
    def open(self, path: str, query: Mapping[str, str] | None = None, *, method: str = "GET", body: Json | None = None,
             headers: Mapping[str, str] | None = None,
             timeout: float | None = TIMEOUT_S) -> Iterator[tuple[Mapping[str, str], IO[bytes]]]:
        """Open a request; yield the answer's headers and its body as it arrives. Raises ApiError."""
        import urllib3
        from kubernetes.client import ApiException

        path = path + ("?" + urllib.parse.urlencode(query) if query else "")
        try:
            answer = self._api.call_api(
                path, method, body=body, header_params=dict(headers or {}), auth_settings=["BearerToken"],
                _preload_content=False, _request_timeout=(10.0, timeout) if timeout else None,
            )  # fmt: skip
            try:
                yield answer.headers, answer
            finally:
                answer.close()
        except ApiException as error:
            if not error.status:
                raise self._no_answer(error.reason) from None
            raise self.refusal(path, error.status, (error.body or error.reason or "").encode()) from None
        except (urllib3.exceptions.HTTPError, OSError) as error:
            raise self._no_answer(error) from None

    def ask(self, method: str, path: str, body: Json | None = None, *, query: Mapping[str, str] | None = None,
            kind: str = "application/json", accept: str = "application/json") -> Json:
        """Return a JSON answer. `kind` is the body's content type. Raises ApiError."""
        headers = {"Content-Type": kind, "Accept": accept}
        with self.open(path, query, method=method, body=body, headers=headers) as (_, answer):
            text = answer.read()
        try:
            found = json.loads(text or b"{}")
        except ValueError:
            raise self.foreign(path, "no JSON") from None
        return found if isinstance(found, dict) else {"items": found}

    def stream(self, path: str, query: Mapping[str, str] | None = None, *, follow: bool = False) -> Iterator[bytes]:
        """Yield lines of an answer as they come, with `follow` however long none comes. Raises ApiError."""
        with self.open(path, query, timeout=None if follow else TIMEOUT_S) as (_, answer):
            yield from answer

    def foreign(self, path: str, gave: str) -> ApiError:
        """Make the error that the server `gave` something at `path` that the expected one would not."""
        return ApiError(400, f"{self.where} gave {gave} at {path}: is it the right address?")

    def refusal(self, path: str, status: int, answer: bytes) -> ApiError:
        text = answer.decode(errors="replace").strip()
        with contextlib.suppress(ValueError, AttributeError):
            text = json.loads(text).get("message") or text
        return ApiError(status, f"{self.where} refused ({status}): {text[:_SHOWN]}{_HINTS.get(status, '')}")

    def _no_answer(self, error: object) -> ApiError:
        hint = next((hint for sign, hint in _FAILURES.items() if sign in f"{error} {error!r}"), "")
        return ApiError(0, f"{self.where} does not answer: {error}{hint}")


PIPELINE = "argosy/pipeline"  # label of our workflows
PHASE = "workflows.argoproj.io/phase"
DEFAULT_NAMESPACE = "argosy"
MOST = 5  # workflows that a hint names
MOST_CONFIG = 100_000  # bytes; the plan's pod gets it as an environment variable, which holds 128 KiB
RETRY_OF = "argosy/retry-of"
FROM_PLAN = "displayName=plan"  # the nodes from which a retry always goes on: the plan skips what is done


@dataclass(frozen=True)
class Summary:
    """A workflow in a list."""

    name: str
    pipeline: str
    phase: str
    created: str


class ArgoClient(ABC):
    """A namespace's workflows. Every method raises ApiError."""

    def __init__(self, transport: Transport, namespace: str, workflows: str, templates: str) -> None:
        self.transport, self.namespace = transport, namespace
        self._workflows, self._templates = workflows, templates  # their paths in the API

    def get(self, name: str) -> Json:
        """Return the Workflow object, with its nodes."""
        return self._object(f"{self._workflows}/{name}")

    def template(self, name: str) -> Json:
        return self._object(f"{self._templates}/{name}")

    def list(self) -> list[Summary]:
        """List Argosy's workflows, the newest first."""
        found = [(each["metadata"], each["metadata"].get("labels") or {}) for each in self._listed().get("items") or []]
        every = [Summary(metadata["name"], labels.get(PIPELINE, ""), labels.get(PHASE, "Pending"),
                         metadata.get("creationTimestamp") or "") for metadata, labels in found]  # fmt: skip
        return sorted(every, key=lambda each: (each.created, each.name), reverse=True)

    @abstractmethod
    def _listed(self) -> Json:
        """List our workflows by metadata alone: one may weigh a megabyte."""

    @abstractmethod
    def submit(self, workflow: Json) -> Json:
        """Create a workflow."""

    @abstractmethod
    def log(self, workflow: Json, node: Json, *, follow: bool, last: int = 0) -> Iterator[bytes]:
        """Yield the output of the pod of `node`, as it comes; with `follow` until it ends; the `last` lines alone."""

    @abstractmethod
    def shut_down(self, name: str, strategy: str) -> None:
        """Stop (the exit handler still runs) or Terminate (it does not)."""

    @abstractmethod
    def retry(self, workflow: Json) -> Json:
        """Run what failed, or was stopped, again; returns the workflow that does."""

    def _object(self, path: str) -> Json:
        found = self.transport.ask("GET", path)
        if "metadata" not in found or "spec" not in found:
            raise self.transport.foreign(path, "JSON of another kind")
        return found

    def has_namespace(self) -> bool:
        """Tell whether the namespace exists; taken for granted where the API may not be asked."""
        return True

    def profile(self, name: str) -> str | None:
        """Return YAML of a cluster profile in the namespace; "" where it is not there, None where nobody knows."""
        return None

    def some(self) -> Sequence[Summary]:
        """List workflows as `list` does; raise InputError where there is none."""
        found = self.list()
        if not found:
            raise self.absent("workflow of Argosy", "'argosy submit' makes one")
        return found

    def find(self, name: str = "") -> Json:
        """Return the workflow `name`, or the newest one. Raises InputError: there is none; names the nearest."""
        name = name or self.some()[0].name
        try:
            return self.get(name)
        except ApiError as error:
            if error.status != 404:
                raise
        known = [each.name for each in self.list()]
        raise self.absent(f"workflow {name!r}", likely(name, known, "the newest", MOST))

    def absent(self, what: str, hint: str) -> InputError:
        """Make the error that `what` is not in the namespace, with a `hint`; or that there is no such namespace."""
        if not self.has_namespace():
            return InputError(f"there is no namespace {self.namespace!r}: name another --namespace, or make it "
                              f"(kubectl create namespace {self.namespace}) and let 'argosy doctor' find what it needs")
        return InputError(f"there is no {what} in namespace {self.namespace}" + (f"; {hint}" if hint else ""))


def submission(template: str, namespace: str, parameters: Mapping[str, str]) -> Json:
    """Build a workflow of the WorkflowTemplate `template`."""
    given = [{"name": name, "value": value} for name, value in parameters.items()]
    return {
        "apiVersion": "argoproj.io/v1alpha1",
        "kind": "Workflow",
        "metadata": {"generateName": f"{template}-", "namespace": namespace,
                     "labels": {PIPELINE: template}},  # at once; the template sets it too
        "spec": {"workflowTemplateRef": {"name": template}, "arguments": {"parameters": given}},
    }


def same_again(workflow: Json) -> Json:
    spec, metadata = workflow["spec"], workflow["metadata"]
    given = {name: each.get("value", "") for name, each in parameters_of(spec).items()}
    again = submission(spec["workflowTemplateRef"]["name"], metadata["namespace"], given)
    again["metadata"]["annotations"] = {RETRY_OF: metadata["name"]}
    return again


def config_text(file: Path | None) -> str:
    """Read a config file for the parameter `config`. Raises InputError: it is too long to be one."""
    text = file.read_text(encoding="utf-8") if file else ""
    if len(text.encode()) > MOST_CONFIG:
        raise InputError(f"{file} has {len(text.encode()):,} bytes, allowed: {MOST_CONFIG:,}, since it becomes a "
                         "parameter of the workflow")
    return text


def check_parameters(template: Json, parameters: Mapping[str, str]) -> None:
    """Raise InputError where the cluster's template does not take a parameter, or not its value."""
    declared = parameters_of(template["spec"])
    for name, value in parameters.items():
        if name not in declared:
            raise InputError(f"the WorkflowTemplate {template['metadata']['name']} has no parameter {name!r}: it is "
                             "another version's; install this one's (argosy manifests)")
        allowed = declared[name].get("enum")
        if allowed and value not in allowed:
            raise InputError(f"{name} is {value!r}, allowed by the cluster's WorkflowTemplate: "
                             + ", ".join(each or "''" for each in allowed))


def check_files(config: LifecycleConfig) -> None:
    """Raise InputError where `config` names files of this machine: pods do not see them."""
    for node in lifecycle(config):
        for name, path in node.config.paths_with(Role.EXTERNAL):
            if not is_uri(path) and not Path(path).is_absolute():
                there = f"/store/{Path(path).name}"
                raise InputError(f"{node.name}.{name} is {path!r}, a path of this machine, which pods do not see: "
                                 f"put the file into the store and name it as pods do, such as {there}")
