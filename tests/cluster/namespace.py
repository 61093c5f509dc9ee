"""A namespace of the tests' own, with a controller where the installed one manages another namespace alone."""

import contextlib
import time
from collections.abc import Iterator, Mapping
from typing import Any

CONTROLLER, ACCOUNT = "workflow-controller", "argo"
WAIT_S = 180


@contextlib.contextmanager
def own_namespace(name: str, like: str) -> Iterator[None]:
    """Make the namespace `name`, held to what `like` is held to, and take it away afterwards with all that is in it."""
    from kubernetes import client

    core = client.CoreV1Api()
    delete(core, name)  # of a run that was killed
    core.create_namespace({"metadata": {"name": name, "labels": pod_security(core, like)}})
    try:
        give_controller(name)
        yield
    finally:
        delete(core, name)


def pod_security(core: Any, namespace: str) -> dict[str, str]:
    """The labels that say what the pods of a namespace may be; none where it is not there."""
    from kubernetes import client

    try:
        labels: Mapping[str, str] = core.read_namespace(namespace).metadata.labels or {}
    except client.ApiException:
        return {}
    return {key: value for key, value in labels.items() if key.startswith("pod-security.kubernetes.io/")}


def delete(core: Any, name: str) -> None:
    """Delete the namespace, and wait until it is gone."""
    from kubernetes import client

    deadline = time.monotonic() + WAIT_S
    with contextlib.suppress(client.ApiException):  # 404: it is gone
        while time.monotonic() < deadline:
            core.delete_namespace(name)
            time.sleep(1)


def give_controller(namespace: str) -> None:
    """Copy the controller where it manages one namespace alone; one that manages all does for this one too."""
    from kubernetes import client, dynamic

    api = dynamic.DynamicClient(client.ApiClient())
    deployments = api.resources.get(api_version="apps/v1", kind="Deployment")
    every = deployments.get().to_dict()["items"]
    found = next((each for each in every if each["metadata"]["name"] == CONTROLLER), None)
    arguments = found["spec"]["template"]["spec"]["containers"][0].get("args", []) if found else ["--namespaced"]
    if "--namespaced" not in arguments:
        return
    assert found, f"there is no Deployment {CONTROLLER}"
    where = found["metadata"]["namespace"]
    managed = next((each.partition("=")[2] for each in arguments if each.startswith("--managed-namespace=")), where)
    rights = api.resources.get(api_version="rbac.authorization.k8s.io/v1", kind="Role")
    rules = [rule for place in {managed, where} for role in rights.get(namespace=place).to_dict()["items"]
             if role["metadata"]["name"].startswith("argo-") and "server" not in role["metadata"]["name"]
             for rule in role["rules"]]  # fmt: skip
    maps = api.resources.get(api_version="v1", kind="ConfigMap")
    settings = maps.get(name=f"{CONTROLLER}-configmap", namespace=where)
    pod = found["spec"]["template"]["spec"]
    kept = [each for each in arguments if not each.startswith("--managed-namespace")]
    pod["containers"][0]["args"] = [*kept, f"--managed-namespace={namespace}"]
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": ACCOUNT}
    spec = {key: found["spec"][key] for key in ("selector", "template")}
    for kind, version, content in (
        ("ServiceAccount", "v1", {}), ("ConfigMap", "v1", {"data": settings.to_dict().get("data", {})}),
        ("Role", role["apiGroup"] + "/v1", {"rules": rules}),
        ("RoleBinding", role["apiGroup"] + "/v1",
         {"roleRef": role, "subjects": [{"kind": "ServiceAccount", "name": ACCOUNT, "namespace": namespace}]}),
        ("Deployment", "apps/v1", {"spec": spec}),
    ):  # fmt: skip
        name = {"ConfigMap": f"{CONTROLLER}-configmap", "Deployment": CONTROLLER}.get(kind, ACCOUNT)
        body = {"apiVersion": version, "kind": kind, "metadata": {"name": name, "namespace": namespace}, **content}
        api.resources.get(api_version=version, kind=kind).create(body=body, namespace=namespace)
