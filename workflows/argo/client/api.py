"""The interface of a cluster's workflows, and the Workflow object that a submission creates."""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from argosy.core.config.explain import likely
from argosy.core.config.schema import Role
from argosy.core.errors import InputError
from argosy.core.store.remote import is_uri
from workflows.argo.client.transport import ApiError, Json, Transport
from workflows.argo.client.view import parameters_of
from workflows.lifecycle import LifecycleConfig, lifecycle

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
        """Return a WorkflowTemplate."""
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
    """Build a workflow with the parameters of `workflow`."""
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
