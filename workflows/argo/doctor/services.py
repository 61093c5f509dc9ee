"""MLflow, as people reach it, and the artifact repository."""

from __future__ import annotations

from collections.abc import Iterator

import yaml

from workflows.argo.client_http import ApiError, HttpTransport, Json
from workflows.argo.doctor.argo import find_controller
from workflows.argo.doctor.check import Check, Cluster, Found

REPOSITORIES = "artifact-repositories"
CONTROLLER_CONFIG = "workflow-controller-configmap"


def mlflow(cluster: Cluster) -> Iterator[Found]:
    """Its /health, from this machine. Pods may reach it where this machine does not: --deep asks from one."""
    tracking = cluster.profile.tracking
    if not tracking.uri:
        yield Found("warn", "no tracking.uri in the profile: metrics go to mlflow.db in the store", "set tracking.uri")
    if not tracking.url:
        yield Found("ok", "no tracking.url in the profile: no links, and nothing to ask from here")
        return
    try:
        for _ in HttpTransport(tracking.url, where=f"MLflow at {tracking.url}").stream("/health"):
            pass
    except ApiError as error:
        yield Found("warn", f"{error} (from this machine)", "check tracking.url of the profile, or the way there")
    else:
        yield Found("ok", f"MLflow at {tracking.url} answers")


def artifacts(cluster: Cluster) -> Iterator[Found]:
    """With `artifacts: true`, pods that have some fail without a repository."""
    if not cluster.profile.artifacts:
        yield Found("ok", "the profile asks for none: the report is in the store")
        return
    found = repository(cluster)
    if found is None:
        mend = f"a ConfigMap {REPOSITORIES} in {cluster.namespace} (argo-install has one), or artifacts: false"
        yield Found("FAIL", "the profile asks for artifacts, and no repository is configured", mend)
    else:
        kind = next((key for key in ("s3", "gcs", "azure", "oss", "hdfs") if key in found), "of an unknown kind")
        bucket = (found.get(kind) or {}).get("bucket", "")
        yield Found("ok", f"the repository is {kind} {bucket}".rstrip())


def repository(cluster: Cluster) -> Json | None:
    """The namespace's default repository, else the controller's."""
    own = cluster.core("configmaps", REPOSITORIES)
    if own and own.get("data"):
        default = (own["metadata"].get("annotations") or {}).get("workflows.argoproj.io/default-artifact-repository")
        text = own["data"].get(default) if default else next(iter(own["data"].values()))
        return dict(yaml.safe_load(text) or {}) if text else None
    controller = find_controller(cluster)
    place = controller["metadata"]["namespace"] if controller else "argo"
    config = cluster.get(f"/api/v1/namespaces/{place}/configmaps/{CONTROLLER_CONFIG}") or {}
    text = (config.get("data") or {}).get("artifactRepository")
    return dict(yaml.safe_load(text)) if text else None


CHECKS = (Check("mlflow", mlflow, 70), Check("artifacts", artifacts, 71))
