"""The Deployment that serves what an alias of the registry names, its Service, its budget and its autoscaling.

A pod is replaced when another one is ready; it then answers on for LINGER_S, until nobody sends it requests any more,
and ends after the last of them."""

from collections.abc import Iterator

from workflows.argo.manifests.containers import document
from workflows.argo.pod.outputs import memory_mb, pod_patch
from workflows.argo.pod.serving import CHECKPOINT, DEPLOYMENT, KEYS_AT, LINGER_S, PORT
from workflows.argo.profile.pods import STORE, Manifest, whole_pod
from workflows.argo.profile.profile import Profile
from workflows.argo.profile.settings import Placement, Serving
from workflows.graph import Resources

LABELS = {"app.kubernetes.io/name": DEPLOYMENT}
SIZE = Resources(cores=4, memory_gb=16.0)  # unless the profile says otherwise
_ENDING_S, _LOADING_S = 15, 3600


def serving(profile: Profile, given: Serving) -> Iterator[Manifest]:
    """Yield the objects."""
    labels = {**LABELS, "app.kubernetes.io/part-of": "argosy"}
    # What Prometheus by custom goes by, from which an adapter makes metrics of pods.
    scraped = {"prometheus.io/scrape": "true", "prometheus.io/port": str(PORT), "prometheus.io/path": "/metrics"}
    yield document(profile, "apps/v1", "Deployment", DEPLOYMENT, spec={
        **({} if given.most else {"replicas": given.replicas}), "revisionHistoryLimit": 5,
        "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}},
        "progressDeadlineSeconds": _LOADING_S + 600, "selector": {"matchLabels": LABELS},
        "template": {"metadata": {"labels": labels, "annotations": scraped}, "spec": _pod(profile, given)}})
    yield document(profile, "v1", "Service", DEPLOYMENT, spec={
        "selector": LABELS, "ports": [{"name": "http", "port": PORT, "targetPort": "http"}]})  # fmt: skip
    yield document(profile, "policy/v1", "PodDisruptionBudget", DEPLOYMENT, spec={
        "maxUnavailable": 1, "selector": {"matchLabels": LABELS}})  # fmt: skip
    if given.most:
        target = {"type": "AverageValue", "averageValue": str(given.waiting)}
        yield document(profile, "autoscaling/v2", "HorizontalPodAutoscaler", DEPLOYMENT, spec={
            "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": DEPLOYMENT},
            "minReplicas": given.replicas, "maxReplicas": given.most,
            "metrics": [{"type": "Pods", "pods": {"metric": {"name": "argosy_waiting"}, "target": target}}]})


def _pod(profile: Profile, given: Serving) -> Manifest:
    patch = pod_patch(profile, "serve", "train", SIZE)
    patch.pop("activeDeadlineSeconds", None)
    made = whole_pod(profile, patch, memory_mb(profile, "serve", SIZE),
                     ["serve", "--profile", profile.name, "--checkpoint", "$(CHECKPOINT)"], {})
    (main,) = made["containers"]
    if not profile.storage.uri and "secrets" not in profile.stages.get("serve", Placement()).model_fields_set:
        main.pop("envFrom", None)  # it answers strangers, and needs none to read the store
    annotation = {"fieldRef": {"fieldPath": f"metadata.annotations['{CHECKPOINT}']"}}
    main["env"].append({"name": "CHECKPOINT", "valueFrom": annotation})
    secret, _, key = given.keys.partition("/")
    made["volumes"].append({"name": "keys", "secret": {"secretName": secret, "items": [{"key": key, "path": "keys"}]}})
    main["volumeMounts"] = [{**each, "readOnly": True} if each["name"] == STORE and not profile.storage.uri else each
                            for each in main["volumeMounts"]]  # fmt: skip
    main["volumeMounts"].append({"name": "keys", "mountPath": KEYS_AT, "readOnly": True})
    main |= {"ports": [{"name": "http", "containerPort": PORT}], "terminationMessagePolicy": "FallbackToLogsOnError",
             "startupProbe": _health(5, _LOADING_S // 5), "readinessProbe": _health(5, 2),
             "livenessProbe": _health(20, 6)}
    return {**made, "terminationGracePeriodSeconds": LINGER_S + given.drain_s + _ENDING_S}


def _health(every_s: int, failures: int) -> Manifest:
    return {"httpGet": {"path": "/health", "port": "http"}, "timeoutSeconds": 10, "periodSeconds": every_s,
            "failureThreshold": failures}
