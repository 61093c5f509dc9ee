"""The CronWorkflow `nightly-eval`: the template `evaluate` on all that is new, at the profile's hour."""

from __future__ import annotations

from typing import Any

from workflows.argo.pod.nightly import EVALUATE
from workflows.argo.profile import Profile

NAME = "nightly-eval"
KEPT = {"successfulJobsHistoryLimit": 7, "failedJobsHistoryLimit": 14}


def nightly_template(profile: Profile) -> dict[str, Any]:
    """Never two nights at a time; a start that the controller missed is made up for within `late_s`."""
    nightly = profile.nightly
    labels = {"app.kubernetes.io/part-of": "argosy"}
    return {
        "apiVersion": "argoproj.io/v1alpha1",
        "kind": "CronWorkflow",
        "metadata": {"name": NAME, "namespace": profile.namespace, "labels": labels},
        "spec": {
            "schedules": [nightly.schedule],
            "timezone": nightly.timezone,
            "startingDeadlineSeconds": nightly.late_s,
            "concurrencyPolicy": "Forbid",
            "suspend": nightly.suspend,
            **KEPT,
            "workflowMetadata": {"labels": {"argosy/pipeline": EVALUATE.name}},
            "workflowSpec": {"workflowTemplateRef": {"name": EVALUATE.name}},
        },
    }
