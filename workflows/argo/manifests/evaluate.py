"""The WorkflowTemplate `evaluate`, and the CronWorkflow that starts it every night."""

from typing import Any

from hera.workflows import Container, Parameter, SecretEnv, Task, WorkflowTemplate
from hera.workflows import models as m

from workflows.argo.handoff import EVALUATE, WEBHOOK
from workflows.argo.manifests.containers import REPORT, WORKFLOW, Tail, container, parameter, report_task, retry
from workflows.argo.manifests.workflow import PLAN, Planned, common_fields, form_field, workflow_template
from workflows.argo.profile.profile import Profile

JUDGE = "judge"
MEMORY = "4Gi"  # of judging, unless the profile's stage `judge` says another: a million answers take 1 GB
NAME = "nightly-eval"
KEPT = {"successfulJobsHistoryLimit": 7, "failedJobsHistoryLimit": 14}


def evaluate_template(profile: Profile) -> WorkflowTemplate:
    """Make the template `evaluate`: plan -> evaluate (batches of missing cells) -> judge."""
    names = ("checkpoints", "suites", "reference", "model")
    return workflow_template(
        profile,
        Planned(
            name=EVALUATE.name,
            title="Argosy: evaluate checkpoints",
            description="Evaluates what is missing of checkpoint x suite, compares with the reference, and ends red "
            "or calls the webhook where a checkpoint is worse beyond noise. With nothing new it does nothing.",
            fields=evaluate_fields(profile),
            tasks=[EVALUATE],
            plan_env=[(f"ARGOSY_{name.upper()}", parameter(name)) for name in names],
            plan_outputs=[JUDGE],
            after=_judge(profile) + report_task(profile, JUDGE, "Succeeded", "Failed"),
            target=f"{JUDGE} {REPORT}" if profile.artifacts else None,  # a red judge is a red night, shown or not
        ),
    )


def _judge(profile: Profile) -> Tail:
    # Whatever became of the evaluations: one that fails holds up no other checkpoint, and judge ends red for it.
    ended = " || ".join(f"{EVALUATE.name}.{how}" for how in ("Succeeded", "Skipped", "Failed", "Errored"))
    wanted = f"'{{{{tasks.{PLAN}.outputs.parameters.{JUDGE}}}}}' == 'yes'"
    task = Task(name=JUDGE, template=JUDGE, depends=f"{PLAN}.Succeeded && ({ended})", when=wanted)
    return Tail([task], [_container(profile)])


def _container(profile: Profile) -> Container:
    placed = profile.of_stage(JUDGE)
    resources = m.ResourceRequirements(
        requests={"cpu": placed.cpu or "500m", "memory": "512Mi"}, limits={"memory": placed.memory or MEMORY}
    )
    name, _, key = profile.nightly.webhook_secret.partition("/")
    return container(
        JUDGE, profile, [JUDGE, "--workflow", WORKFLOW, "--profile", parameter("profile")],
        secret_env=[SecretEnv(name=WEBHOOK, secret_name=name, secret_key=key)] if name else (), resources=resources,
        retry_strategy=retry(profile)
    )


def nightly_template(profile: Profile) -> dict[str, Any]:
    """Make the CronWorkflow: never two nights at a time; a missed start is made up for within `late_s`."""
    nightly = profile.nightly
    labels = {"app.kubernetes.io/part-of": "argosy"}
    return {
        "apiVersion": "argoproj.io/v1alpha1",
        "kind": "CronWorkflow",
        "metadata": {"name": NAME, "namespace": profile.namespace, "labels": labels},
        "spec": {
            "schedules": [nightly.schedule], "timezone": nightly.timezone, "startingDeadlineSeconds": nightly.late_s,
            "concurrencyPolicy": "Forbid", "suspend": nightly.suspend, **KEPT,
            "workflowMetadata": {"labels": {"argosy/pipeline": EVALUATE.name}},
            "workflowSpec": {"workflowTemplateRef": {"name": EVALUATE.name}}
        },
    }


def evaluate_fields(profile: Profile) -> list[Parameter]:
    """Make the form of `evaluate`."""
    return [
        form_field("checkpoints", "", "STAGE, STAGE/EXPORT or directories, one a line. Empty: all that are new"),
        form_field("suites", "", "Names with commas. Empty: those that the checkpoints' run was configured with"),
        form_field("reference", "", f"Alias or checkpoint to compare with. Empty: the alias {profile.nightly.alias}"),
        form_field("model", profile.nightly.model, "Registered model of the alias. Empty: the model line's name"),
        *common_fields(profile),
    ]
