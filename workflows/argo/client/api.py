"""The Kubernetes API (JSON in, JSON out, errors that people understand), by the kubeconfig or a pod's own account, with
a namespace's workflows."""

import contextlib
import json
import os
import urllib.parse
import warnings
from collections.abc import Iterator, Mapping
from typing import IO, Any

from argosy.core.config.explain import likely
from argosy.core.errors import ArgosyError, InputError
from workflows.argo.client.view import Json, pod_name
from workflows.argo.profile.profile import config_map

TIMEOUT_S = 30.0
HINT = "set KUBECONFIG to a file that is there, or --context"
PIPELINE = "argosy/pipeline"  # label of our workflows
PHASE = "workflows.argoproj.io/phase"
METADATA_ALONE = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
MERGE = "application/merge-patch+json"
MOST = 5  # workflows that a hint names
_SHOWN = 1000  # characters of an answer that an error shows
_HINTS = {401: "; log in again with the kubeconfig's tool", 403: "; ask for the right, or use another --context"}


class ApiError(ArgosyError):
    """An API refused, or did not answer: `status` is the HTTP status, 0 where no answer came.

    `passing`: worth another attempt, as it is the API's trouble and not the request's."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.passing = status in (0, 429) or status >= 500
        self.exit_code = 1 if self.passing else 2


def load_access(settings: Any, context: str) -> str:
    """Fill `settings` (a kubernetes.client.Configuration) from the kubeconfig, or from a pod's own account.

    Returns the context's namespace; empty where it names none. Raises InputError: there is neither, the file is broken,
    or has no such context."""
    import yaml
    from kubernetes import config

    file = os.environ.get("KUBECONFIG") or "~/.kube/config"  # the package reads it once, when imported
    try:
        try:
            contexts, current = config.list_kube_config_contexts(file)
        except config.ConfigException:
            if not context:
                with contextlib.suppress(config.ConfigException):  # no pod: then the kubeconfig was meant
                    config.load_incluster_config(settings)
                    return ""
            raise
        names = {each["name"]: each for each in contexts}
        if context and context not in names:
            raise InputError(f"--context is {context!r}, allowed: {', '.join(sorted(names))}")
        config.load_kube_config(file, context=context or None, client_configuration=settings)
        return str((names[context] if context else current)["context"].get("namespace") or "")
    except config.ConfigException as error:
        raise InputError(f"no cluster: the kubeconfig {file} names none, or is not there ({str(error).rstrip('.')}); "
                         f"{HINT}") from None
    except (yaml.YAMLError, AttributeError, KeyError, TypeError, ValueError, OSError) as error:
        raise InputError(f"the kubeconfig {file} is broken: {type(error).__name__}: {error}; 'kubectl config view' "
                         f"tells more; {HINT}") from None


class Transport:
    """The Kubernetes API. The `kubernetes` package knows the kubeconfig's many ways to log in.

    Attributes:
        where: what errors call it.
        namespace: of the kubeconfig's context; empty where it names none."""

    def __init__(self, context: str = "", *, insecure: bool = False) -> None:
        from kubernetes import client  # here, since it takes a second
        from urllib3.exceptions import InsecureRequestWarning

        settings = client.Configuration()
        self.namespace = load_access(settings, context)
        settings.verify_ssl = settings.verify_ssl and not insecure
        if not settings.verify_ssl:  # as somebody asked
            warnings.simplefilter("ignore", InsecureRequestWarning)
        settings.retries = False  # whoever asks tries again
        self._api, self.where = client.ApiClient(settings), f"the cluster at {settings.host}"

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
                _preload_content=False, _request_timeout=(10.0, timeout) if timeout else None)  # fmt: skip
            try:
                yield answer.headers, answer
            finally:
                answer.close()
        except ApiException as error:
            if not error.status:
                raise self._no_answer(error.reason) from None
            raise self._refusal(error.status, (error.body or error.reason or "").encode()) from None
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
            raise ApiError(400, f"{self.where} gave no JSON at {path}: is it the right address?") from None
        return found if isinstance(found, dict) else {"items": found}

    def stream(self, path: str, query: Mapping[str, str] | None = None, *, follow: bool = False) -> Iterator[bytes]:
        """Yield lines of an answer as they come, with `follow` however long none comes. Raises ApiError."""
        with self.open(path, query, timeout=None if follow else TIMEOUT_S) as (_, answer):
            yield from answer

    def _refusal(self, status: int, answer: bytes) -> ApiError:
        text = answer.decode(errors="replace").strip()
        with contextlib.suppress(ValueError, AttributeError):
            text = json.loads(text).get("message") or text
        return ApiError(status, f"{self.where} refused ({status}): {text[:_SHOWN]}{_HINTS.get(status, '')}")

    def _no_answer(self, error: object) -> ApiError:
        hint = "; with --insecure its certificate is not checked" if "CERTIFICATE_VERIFY_FAILED" in f"{error!r}" else ""
        return ApiError(0, f"{self.where} does not answer: {error}{hint}")


class ArgoClient:
    """A namespace's workflows, as custom resources of Kubernetes. Every method raises ApiError."""

    def __init__(self, transport: Transport, namespace: str) -> None:
        self.transport, self.namespace = transport, namespace
        self._core = f"/api/v1/namespaces/{namespace}"
        self._argo = f"/apis/argoproj.io/v1alpha1/namespaces/{namespace}"

    def get(self, name: str) -> Json:
        """Return the Workflow object, with its nodes."""
        return self.transport.ask("GET", f"{self._argo}/workflows/{name}")

    def template(self, name: str) -> Json:
        return self.transport.ask("GET", f"{self._argo}/workflowtemplates/{name}")

    def phases(self) -> dict[str, str]:
        """Return the phase of each of Argosy's workflows, the newest first, by metadata alone: one may weigh a MB."""
        listed = self.transport.ask("GET", f"{self._argo}/workflows", query={"labelSelector": PIPELINE},
                                    accept=METADATA_ALONE)  # fmt: skip
        every = [each["metadata"] for each in listed.get("items") or []]
        newest = sorted(every, key=lambda each: (each.get("creationTimestamp") or "", each["name"]), reverse=True)
        return {each["name"]: (each.get("labels") or {}).get(PHASE, "Pending") for each in newest}

    def submit(self, workflow: Json) -> Json:
        return self.transport.ask("POST", f"{self._argo}/workflows", workflow)

    def log(self, workflow: Json, node: Json, *, follow: bool) -> Iterator[bytes]:
        """Yield the output of the pod of `node`, as it comes; with `follow` until it ends."""
        query = {"container": "main", "follow": "true" if follow else "false"}
        return self.transport.stream(f"{self._core}/pods/{pod_name(workflow, node)}/log", query, follow=follow)

    def shut_down(self, name: str, strategy: str) -> None:
        """Stop (the exit handler still runs) or Terminate (it does not), as `argo stop` and `argo terminate` do."""
        self.transport.ask("PATCH", f"{self._argo}/workflows/{name}", {"spec": {"shutdown": strategy}}, kind=MERGE)

    def has_namespace(self) -> bool:
        """Tell whether the namespace exists; taken for granted where one may not ask."""
        try:
            self.transport.ask("GET", self._core)
        except ApiError as error:
            return error.status != 404
        return True

    def profile(self, name: str) -> str | None:
        """Return YAML of a cluster profile in the namespace; "" where it is not there, None where one may not ask."""
        try:
            data = self.transport.ask("GET", f"{self._core}/configmaps/{config_map(name)}").get("data") or {}
        except ApiError as error:
            if error.passing:
                raise
            return "" if error.status == 404 else None
        return str(data.get(f"{name}.yaml") or "")

    def find(self, name: str = "") -> Json:
        """Return the workflow `name`, or the newest one. Raises InputError: there is none; names the nearest."""
        if not (name := name or next(iter(self.phases()), "")):
            raise self.absent("workflow of Argosy", "'argosy submit' makes one")
        try:
            return self.get(name)
        except ApiError as error:
            if error.status != 404:
                raise
        raise self.absent(f"workflow {name!r}", likely(name, self.phases(), "the newest", MOST))

    def absent(self, what: str, hint: str) -> InputError:
        """Make the error that `what` is not in the namespace, with a `hint`; or that there is no such namespace."""
        if not self.has_namespace():
            return InputError(f"there is no namespace {self.namespace!r}: name another --namespace, or make it "
                              f"(kubectl create namespace {self.namespace}) and let 'argosy doctor' find what it needs")
        return InputError(f"there is no {what} in namespace {self.namespace}" + (f"; {hint}" if hint else ""))


def connect(namespace: str = "", context: str = "", *, insecure: bool = False) -> ArgoClient:
    """Connect by the kubeconfig's context. Raises InputError: there is none, or a wrong one."""
    transport = Transport(context, insecure=insecure)
    return ArgoClient(transport, namespace or transport.namespace or "argosy")
