"""The WorkflowTemplates `lifecycle`, with the promotion that may follow the comparison, `sweep`, and `evaluate`, with
the CronWorkflow that starts it every night."""

from dataclasses import replace

from hera.workflows import Parameter, SecretEnv, Suspend, Task, WorkflowTemplate
from hera.workflows import models as m

from workflows.argo.handoff import EVALUATE, WEBHOOK, tasks_of
from workflows.argo.manifests.containers import (
    REPORT,
    WORKFLOW,
    Tail,
    container,
    document,
    parameter,
    report_task,
    retry,
)
from workflows.argo.manifests.nested import GLOBAL, following, tree
from workflows.argo.manifests.workflow import PLAN, Planned, common_fields, form_field, workflow_template
from workflows.argo.pod.early import EARLY
from workflows.argo.pod.plan import BATCHES, GROUPS, SWEEP_FIELDS, TREE
from workflows.argo.profile.pods import Manifest
from workflows.argo.profile.profile import Profile
from workflows.compose import DEFAULT_PRESET, every_stage, preset_names
from workflows.stages import further_steps
from workflows.sweep import NAME as SWEEP
from workflows.sweep import every_sweep_stage

APPROVE, PROMOTE, APPROVED = "approve", "promote", "promote-approved"
DECISIONS = ["promote", "keep"]
_ASKED = f"'{parameter('promote')}' == "


def promotion(profile: Profile, compare: str = "compare") -> Tail:
    """Add the tasks that follow `compare`, each skipped unless the parameter `promote` asks for it."""
    args = [PROMOTE, "--workflow", WORKFLOW, "--profile", parameter("profile"),
            "--decision={{inputs.parameters.decision}}", "--by={{inputs.parameters.by}}"]  # fmt: skip
    promote = container(PROMOTE, profile, args, inputs=["decision", "by"], retry_strategy=retry(profile))
    compared = f"({compare}.Succeeded || {compare}.Skipped)"
    return Tail(
        tasks=[
            Task(name=APPROVE, template=APPROVE, depends=compared, when=f"{_ASKED}'ask'"),
            # Apart: what a person gave is not there where nobody was asked.
            Task(name=APPROVED, template=PROMOTE, depends=f"{APPROVE}.Succeeded || {APPROVE}.Skipped",
                 when=f"{_ASKED}'ask'",
                 arguments=[_supplied("decision", DECISIONS[0]), _supplied("by", "")]),
            Task(name=PROMOTE, template=PROMOTE, depends=compared, when=f"{_ASKED}'yes'",
                 arguments=[Parameter(name="decision", value=DECISIONS[0]), Parameter(name="by", value="")])],
        templates=[_approve(), promote])  # fmt: skip


def _supplied(name: str, default: str) -> Parameter:
    """Read the person's answer: whoever resumes the node alone, as the UI does, leaves out untouched fields."""
    return Parameter(name=name, value=f"{{{{=tasks.{APPROVE}?.outputs?.parameters?.{name} ?? '{default}'}}}}")


def _approve() -> Suspend:
    """Wait; the UI's form asks for the decision and by whom it was made."""
    given = m.SuppliedValueFrom()
    asked = [Parameter(name="decision", default=DECISIONS[0], enum=DECISIONS, description="After a look at the report"),
             Parameter(name="by", default="", description="Who decides; is kept with the model's version")]
    return Suspend(name=APPROVE, inputs=asked, outputs=[
        Parameter(name=each.name, value_from=m.ValueFrom(supplied=given, default=each.default)) for each in asked])


def lifecycle_template(profile: Profile) -> WorkflowTemplate:
    """Make the template `lifecycle`: all stages, and a tree of post-training."""
    nodes = every_stage()
    tasks = tasks_of(nodes)
    late = {"compare", "export", *(name for name, step in further_steps().items() if step.also)}  # they read its items
    with_tree = [replace(task, upstream=(*task.upstream, TREE)) if task.stage in late else task for task in tasks]
    return workflow_template(
        profile,
        Planned(
            name="lifecycle", title="Argosy: the life of a language model",
            description="Clean, tokenize, pretrain, long context, anneal, SFT, reward model, RLHF, evaluate, compare. "
            "What is done already is not run again.",
            fields=lifecycle_fields(profile, list(dict.fromkeys(node.name for node in nodes))),
            tasks=with_tree, plan_outputs=[TREE, f"run-{TREE}", GROUPS, BATCHES, EARLY], seen_by_all=GLOBAL,
            plan_args=["--preset", parameter("preset"), "--from", parameter("from"), "--to", parameter("to"),
                       "--promote", parameter("promote")],
            plan_env=[("ARGOSY_CONFIG", parameter("config")), ("ARGOSY_OVERRIDES", parameter("overrides"))],
            after=tree(profile, tasks) + following(profile, [task.name for task in tasks if task.several] + [TREE])
            + report_task(profile, "compare", "Succeeded") + promotion(profile)))


def lifecycle_fields(profile: Profile, stages: list[str]) -> list[Parameter]:
    return [
        form_field("preset", DEFAULT_PRESET, "Config to start from", preset_names()),
        form_field("config", "", "YAML on top of the preset, as in argosy.yaml"),
        form_field("overrides", "", "stage.field=value, one a line, on top of both: sft.learning_rate=1e-4"),
        form_field("from", "", "First stage to run, or item of posttraining; what it needs must be done. Empty: the "
                   f"first of {', '.join(stages)}"),
        form_field("to", "", "Last stage to run, or item of posttraining. Empty: the last"),
        form_field("promote", "no", "After the comparison, let the registry's alias name the final checkpoint. ask: "
                  "when a person has approved", ["no", "ask", "yes"]),
        *common_fields(profile)]


def sweep_template(profile: Profile) -> WorkflowTemplate:
    """Make the template `sweep`: the stages up to pretraining, with a pod for each point, and their comparison."""
    nodes = every_sweep_stage()
    form = {str(each.name): each for each in lifecycle_fields(profile, [])}
    return workflow_template(
        profile,
        Planned(
            name=SWEEP, title="Argosy: a sweep of small models",
            description="Pretrains a small model for each point of a grid, compares their held-out losses with the "
            "noise of seeds, and says which setting a large model takes. Points that have run are reused.",
            fields=[
                form["preset"], form["config"],
                form_field("overrides", "", "stage.field=value, one a line; fields of pretrain with several values are "
                           "the grid: pretrain.learning_rate=1e-3,3e-3,1e-2"),
                form_field("seeds", "", "Seeds of each point. Empty: one, or as overrides say"),
                form_field("channel", "", "Held-out channel to compare by. Empty: the mean over all"),
                form_field("target-parameters", "", "Of the large model, embeddings aside, such as 1e9. Empty: none"),
                *common_fields(profile)],
            tasks=tasks_of(nodes),
            plan_args=["--preset", parameter("preset"), *(f"--{name}={parameter(name)}" for name in SWEEP_FIELDS)],
            plan_env=[("ARGOSY_CONFIG", parameter("config")), ("ARGOSY_OVERRIDES", parameter("overrides"))],
            after=report_task(profile, SWEEP, "Succeeded")))


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
            fields=[
                form_field("checkpoints", "",
                           "STAGE, STAGE/EXPORT or directories, one a line. Empty: all that are new"),
                form_field("suites", "",
                           "Names with commas. Empty: those that the checkpoints' run was configured with"),
                form_field("reference", "", "Alias or checkpoint to compare with. Empty: the alias "
                           f"{profile.nightly.alias}"),
                form_field("model", profile.nightly.model,
                           "Registered model of the alias. Empty: the model line's name"),
                *common_fields(profile)],
            tasks=[EVALUATE],
            plan_env=[(f"ARGOSY_{name.upper()}", parameter(name)) for name in names],
            plan_outputs=[JUDGE],
            after=_judge(profile) + report_task(profile, JUDGE, "Succeeded", "Failed"),
            target=f"{JUDGE} {REPORT}" if profile.artifacts else None,  # a red judge is a red night, shown or not
        ))


def _judge(profile: Profile) -> Tail:
    # Whatever became of the evaluations: one that fails holds up no other checkpoint, and judge ends red for it.
    ended = " || ".join(f"{EVALUATE.name}.{how}" for how in ("Succeeded", "Skipped", "Failed", "Errored"))
    wanted = f"'{{{{tasks.{PLAN}.outputs.parameters.{JUDGE}}}}}' == 'yes'"
    task = Task(name=JUDGE, template=JUDGE, depends=f"{PLAN}.Succeeded && ({ended})", when=wanted)
    placed = profile.of_stage(JUDGE)
    resources = m.ResourceRequirements(
        requests={"cpu": placed.cpu or "500m", "memory": "512Mi"}, limits={"memory": placed.memory or MEMORY})
    name, _, key = profile.nightly.webhook_secret.partition("/")
    pod = container(JUDGE, profile, [JUDGE, "--workflow", WORKFLOW, "--profile", parameter("profile")],
                    secret_env=[SecretEnv(name=WEBHOOK, secret_name=name, secret_key=key)] if name else (),
                    resources=resources, retry_strategy=retry(profile))
    return Tail([task], [pod])


def nightly_template(profile: Profile) -> Manifest:
    """Make the CronWorkflow: never two nights at a time; a missed start is made up for within `late_s`."""
    nightly = profile.nightly
    return document(profile, "argoproj.io/v1alpha1", "CronWorkflow", NAME, spec={
        "schedules": [nightly.schedule], "timezone": nightly.timezone, "startingDeadlineSeconds": nightly.late_s,
        "concurrencyPolicy": "Forbid", "suspend": nightly.suspend, **KEPT,
        "workflowMetadata": {"labels": {"argosy/pipeline": EVALUATE.name}},
        "workflowSpec": {"workflowTemplateRef": {"name": EVALUATE.name}}})  # fmt: skip
