"""Who may do what: steps nothing, Argo's executor what it needs to report, the reconciler to read workflows."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from workflows.argo.profile import Profile

RECONCILER = "argosy-reconciler"
Manifest = dict[str, Any]
EXECUTOR_RULES = [{"apiGroups": ["argoproj.io"], "resources": ["workflowtaskresults"], "verbs": ["create", "patch"]}]
RECONCILER_RULES = [{"apiGroups": ["argoproj.io"], "resources": ["workflows"], "verbs": ["get", "list", "watch"]}]


def rights(profile: Profile) -> Iterator[Manifest]:
    """Service accounts, and the roles of those that have one."""
    yield _account(profile, profile.service_account)
    yield from _with_role(profile, profile.executor_account, EXECUTOR_RULES)
    yield from _with_role(profile, RECONCILER, RECONCILER_RULES)


def _with_role(profile: Profile, name: str, rules: list[dict[str, list[str]]]) -> Iterator[Manifest]:
    api = "rbac.authorization.k8s.io"
    yield _account(profile, name)
    yield {"apiVersion": f"{api}/v1", "kind": "Role", "metadata": _metadata(profile, name), "rules": rules}
    yield {
        "apiVersion": f"{api}/v1",
        "kind": "RoleBinding",
        "metadata": _metadata(profile, name),
        "roleRef": {"apiGroup": api, "kind": "Role", "name": name},
        "subjects": [{"kind": "ServiceAccount", "name": name, "namespace": profile.namespace}],
    }
    # The executor looks its token up by this name; Kubernetes makes no such Secret by itself.
    if name == profile.executor_account:
        yield {
            "apiVersion": "v1",
            "kind": "Secret",
            "type": "kubernetes.io/service-account-token",
            "metadata": _metadata(profile, f"{name}.service-account-token")
            | {"annotations": {"kubernetes.io/service-account.name": name}},
        }


def _account(profile: Profile, name: str) -> Manifest:
    metadata = _metadata(profile, name)
    return {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata, "automountServiceAccountToken": False}


def _metadata(profile: Profile, name: str) -> dict[str, Any]:
    return {"name": name, "namespace": profile.namespace, "labels": {"app.kubernetes.io/part-of": "argosy"}}
