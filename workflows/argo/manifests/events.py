"""EventSources and the Sensor of a profile's events, for Argo Events: it creates a Workflow for each event, whose name
follows from what happened, so that the API server refuses the same event a second time."""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from argosy.core.config.explain import likely
from argosy.core.errors import InputError
from workflows.argo.manifests.containers import document
from workflows.argo.profile.events import NAME, SAFE, Event
from workflows.argo.profile.pods import NO_RIGHTS, Manifest, mounts, volumes
from workflows.argo.profile.profile import Profile
from workflows.compose import compose
from workflows.lifecycle import lifecycle
from workflows.plan import stage_range
from workflows.stored.events import ALIASES, CHECKPOINTS, events_folder

HOOKS, FILES, SENSOR = "argosy-hooks", "argosy-files", "argosy-sensor"
PORTS = {"webhook": 12000, "github": 12001}  # each kind listens by itself
SENSOR_RULES = [{"apiGroups": ["argoproj.io"], "resources": ["workflows"], "verbs": ["create"]}]
_OBJECT = "(index .Input.notification 0).s3.object"
_FILE = '(trimSuffix ".json" .Input.name)'
# Templates (Go, Sprig) over an event: what it is about, and what tells it from others. A request without an id, and a
# file that comes again by the same name, are events of their own.
_ABOUT = {"push": ".Input.body.after", "bucket": f"{_OBJECT}.key", "folder": ".Input.name", "checkpoint": _FILE,
          "alias": _FILE}
_IDENTITY = {**_ABOUT, "push": '(printf "%v %v" .Input.body.before .Input.body.after)',
             "bucket": f'(printf "%v %v" {_OBJECT}.key {_OBJECT}.eTag)', "folder": ".Input.id",
             "webhook": '(hasKey .Input.body "id" | ternary (toString .Input.body.id) (randAlphaNum 16))'}
_MATCH = {"push": "body.after", "bucket": "notification.0.s3.object.key", "folder": "name"}  # paths of these


def events(profile: Profile, forms: Mapping[str, Sequence[Manifest]]) -> list[Manifest]:
    """Make the objects of all events. `forms`: the parameters of each template, with their defaults. Raises InputError:
    an event sets a parameter that its template does not have."""
    sources: dict[str, dict[str, dict[str, Any]]] = {HOOKS: {}, FILES: {}}
    triggers, dependencies = [], []
    for name, event in profile.events.items():
        source, kind, spec = _source(profile, name, event)
        sources[source].setdefault(kind, {})[name] = spec
        filters = [{"path": path, "type": "string", "value": [value]} for path, value in _filters(event).items()]
        dependencies.append({"name": name, "eventSourceName": source, "eventName": name,
                             **({"filters": {"data": filters}} if filters else {})})
        triggers.append({"template": {"name": name, "conditions": name, "k8s": _workflow(name, event, forms)},
                         "retryStrategy": {"steps": 3, "duration": "5s", "factor": 2}})
    made = [document(profile, "argoproj.io/v1alpha1", "EventSource", source, spec={
        "template": {**_pod(profile, files=source == FILES), "serviceAccountName": profile.service_account}, **kinds,
        **({"service": {"ports": [{"name": kind, "port": PORTS[kind], "targetPort": PORTS[kind]} for kind in kinds]}}
           if source == HOOKS else {})})
        for source, kinds in sources.items() if kinds]  # fmt: skip
    return [*made, document(profile, "argoproj.io/v1alpha1", "Sensor", SENSOR, spec={
        "template": {**_pod(profile), "serviceAccountName": SENSOR}, "dependencies": dependencies,
        "triggers": triggers})] if triggers else []  # fmt: skip


def _key(reference: str) -> dict[str, str]:
    return dict(zip(("name", "key"), reference.split("/"), strict=True))


def _source(profile: Profile, name: str, event: Event) -> tuple[str, str, dict[str, Any]]:
    """Return the EventSource of an event, its kind there, and its spec."""
    kind = "webhook" if event.webhook else "github"
    at = {"endpoint": f"/{name}", "port": str(PORTS[kind]), "method": "POST"}
    if event.webhook:
        return HOOKS, kind, {**at, "authSecret": _key(event.webhook.secret)}
    if event.push:
        owner, _, repository = event.push.repository.partition("/")
        return HOOKS, kind, {"webhook": at, "webhookSecret": _key(event.push.secret), "events": ["push"],
                                 "repositories": [{"owner": owner, "names": [repository]}]}
    if found := event.bucket:
        keys = {f"{part}Key": {"name": found.secret, "key": f"{part}key"} for part in ("access", "secret")}
        return FILES, "minio", {"endpoint": found.endpoint, "insecure": found.insecure, **keys,
                                "bucket": {"name": found.bucket}, "events": ["s3:ObjectCreated:*"],
                                "filter": {"prefix": found.prefix, "suffix": found.suffix}}
    folder, files = (event.folder.path, event.folder.files) if event.folder else _noted(profile, event)
    # Polled, as the notifications of a kernel do not cross a network file system.
    return FILES, "file", {"watchPathConfig": {"directory": folder, "pathRegexp": f"^/?({files})$"},
                           "eventType": "CREATE", "polling": True}


def _noted(profile: Profile, event: Event) -> tuple[str, str]:
    stages, root = "|".join(map(re.escape, event.checkpoint)), Path(profile.storage.root)
    kind, files = (CHECKPOINTS, f"({stages})-[0-9a-f]+") if stages else (ALIASES, f".+@{re.escape(event.alias)}@.+")
    return str(events_folder(root, kind)), rf"{files}\.json"


def _filters(event: Event) -> dict[str, str]:
    """Return the regular expressions that an event's fields must match: a name stands in a parameter."""
    kind = event.kind
    named = kind in _MATCH and any(NAME in value for value in event.parameters.values())
    return {**({_MATCH[kind]: f"^{SAFE}$"} if named else {}),
            **({"body.ref": f"^refs/heads/{re.escape(event.push.branch)}$",
                "body.after": "^0*[1-9a-f][0-9a-f]*$"} if event.push else {})}  # zeros: the branch was deleted


def _workflow(name: str, event: Event, forms: Mapping[str, Sequence[Manifest]]) -> Manifest:
    """Make the trigger that creates the workflow of an event."""
    form = {each["name"]: str(each.get("value", "")) for each in forms[event.template]}
    kind, accepted = event.kind, event.webhook.accepts if event.webhook else ()
    for parameter in (*event.parameters, *accepted):
        if parameter not in form:
            raise InputError(f"events.{name} sets {parameter!r}, which is no parameter of {event.template}; "
                             f"{likely(parameter, form)}")
    _check_values(name, event, {each["name"]: each.get("enum") or () for each in forms[event.template]})
    given = {**{parameter: form[parameter] for parameter in accepted}, **event.parameters}
    source = "contextTemplate" if kind == "folder" else "dataTemplate"
    filled = [_filled(name, "metadata.name", {source: f"{{{{{_IDENTITY[kind]} | sha256sum | trunc 12}}}}"}, "append")]
    for number, (parameter, value) in enumerate(given.items()):
        at = f"spec.arguments.parameters.{number}.value"
        if parameter in accepted:
            filled.append(_filled(name, at, {"dataKey": f"body.{parameter}", "value": value}))
        elif NAME in value:
            filled.append(_filled(name, at, {"dataTemplate": value.replace(NAME, f"{{{{{_ABOUT[kind]}}}}}")}))
    return {"operation": "create", "parameters": filled, "source": {"resource": {
        "apiVersion": "argoproj.io/v1alpha1", "kind": "Workflow",
        "metadata": {"name": f"{name}-", "labels": {"argosy/pipeline": event.template, "argosy/event": name}},
        "spec": {"workflowTemplateRef": {"name": event.template}, "arguments": {
            "parameters": [{"name": parameter, "value": value} for parameter, value in given.items()]}}}}}  # fmt: skip


def _check_values(name: str, event: Event, choices: Mapping[str, Sequence[str]]) -> None:
    """Raise InputError: a value that no event and no request fills in is one that the workflow's plan would refuse."""
    given = {parameter: value for parameter, value in event.parameters.items() if NAME not in value}
    for parameter, value in given.items():
        if (known := choices[parameter]) and value not in known:
            allowed = ", ".join(filter(None, known))
            raise InputError(f"events.{name}.parameters.{parameter} is {value!r}, allowed: {allowed}")
    varies = {*(event.parameters.keys() - given.keys()), *(event.webhook.accepts if event.webhook else ())}
    if event.template != "lifecycle" or "config" in given or varies & {"preset", "config", "overrides"}:
        return
    try:
        overrides = [line.strip() for line in given.get("overrides", "").splitlines() if line.strip()]
        stages = [node.name for node in lifecycle(compose(given.get("preset") or None, None, overrides))]
        stage_range(list(dict.fromkeys(stages)), given.get("from") or None, given.get("to") or None)
    except InputError as error:
        raise InputError(f"events.{name}.parameters: {error}") from None


def _filled(event: str, at: str, source: Mapping[str, str], operation: str = "overwrite") -> dict[str, Any]:
    return {"src": {"dependencyName": event, **source}, "dest": at, "operation": operation}


def _pod(profile: Profile, *, files: bool = False) -> dict[str, Any]:
    """Make what pods of Argo Events are: without rights on their node, the store for reading where they watch it."""
    user = {"runAsNonRoot": True, "runAsUser": profile.user, "seccompProfile": {"type": "RuntimeDefault"}}
    resources = {"requests": {"cpu": "20m", "memory": "64Mi"}, "limits": {"memory": "256Mi"}}
    mounted = files and not profile.storage.uri
    held = {"volumes": volumes(profile, profile.name)[:1]} if mounted else {}
    mount = {"volumeMounts": [{**mounts(profile)[0], "readOnly": True}]} if mounted else {}
    return {"metadata": {"labels": {"app.kubernetes.io/name": "argosy-events"}}, "securityContext": user,
            "container": {"resources": resources, "securityContext": dict(NO_RIGHTS), **mount}, **held}
