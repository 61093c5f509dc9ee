"""The WorkflowTemplate `evaluate`: what is new, or what is named, is evaluated and held against the reference."""

from __future__ import annotations

from hera.workflows import Container, SecretEnv, Task, WorkflowTemplate
from hera.workflows import models as m

from workflows.argo.containers import WORKFLOW, Tail, container, parameter, retry
from workflows.argo.parameters import evaluate_fields
from workflows.argo.pod.nightly import EVALUATE, WEBHOOK
from workflows.argo.profile import Profile
from workflows.argo.showing import REPORT, showing
from workflows.argo.templates import PLAN, Planned, workflow_template

JUDGE = "judge"
MEMORY = "4Gi"  # of judging, unless the profile's stage `judge` says another: a million answers take 1 GB


def evaluate_template(profile: Profile) -> WorkflowTemplate:
    """plan -> evaluate (batches of missing cells) -> judge."""
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
            after=_judge(profile) + showing(profile, JUDGE, "Succeeded", "Failed"),
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
        JUDGE,
        profile,
        [JUDGE, "--workflow", WORKFLOW, "--profile", parameter("profile")],
        secret_env=[SecretEnv(name=WEBHOOK, secret_name=name, secret_key=key)] if name else (),
        resources=resources,
        retry_strategy=retry(profile),
    )
