"""The WorkflowTemplate `lifecycle`, and what it shares with `evaluate` and `nightly-eval`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from hera.workflows import DAG, Container, Parameter, Task, WorkflowTemplate
from hera.workflows import models as m

from workflows.argo import failures
from workflows.argo.containers import WORKFLOW, Tail, container, parameter, retry, volumes
from workflows.argo.memory import LATE
from workflows.argo.outputs import OUTPUTS
from workflows.argo.parameters import FormField, lifecycle_fields
from workflows.argo.profile import Profile
from workflows.argo.profile_check import TEMPLATE_STORE
from workflows.argo.promotion import promotion
from workflows.argo.showing import showing
from workflows.argo.step_templates import steps, template_of
from workflows.argo.tasks import Task as StageTask
from workflows.argo.tasks import tasks_of
from workflows.lifecycle import LifecycleConfig, lifecycle
from workflows.plan import plan

MAIN, PLAN, END, FINISH = "main", "plan", "end", "finish"
FINISH_S = 1800  # seconds that the exit handler has, at least


@dataclass(frozen=True)
class Planned:
    """A template whose first pod plans: its name, its form, the command that plans, and what follows its tasks.

    Attributes:
        target: tasks whose success is the workflow's; by default those that no other one waits for.
    """

    name: str
    title: str
    description: str
    fields: Sequence[FormField]
    tasks: Sequence[StageTask]
    plan_args: Sequence[str] = ()
    plan_env: Sequence[tuple[str, str]] = ()
    plan_outputs: Sequence[str] = ()
    after: Tail = field(default_factory=Tail)
    target: str | None = None


def lifecycle_template(profile: Profile) -> WorkflowTemplate:
    """`lifecycle`: all stages."""
    planned = plan(lifecycle(LifecycleConfig()), "/nowhere")
    fields = lifecycle_fields(profile, list(planned.stages))
    return workflow_template(
        profile,
        Planned(
            name="lifecycle",
            title="Argosy: the life of a language model",
            description="Clean, tokenize, pretrain, long context, anneal, SFT, reward model, RLHF, evaluate, compare. "
            "What is done already is not run again.",
            fields=fields,
            tasks=tasks_of(planned.nodes),
            plan_args=["--preset", parameter("preset"), "--from", parameter("from"), "--to", parameter("to"),
                       "--promote", parameter("promote")],
            plan_env=[("ARGOSY_CONFIG", parameter("config")), ("ARGOSY_OVERRIDES", parameter("overrides"))],
            after=showing(profile, "compare", "Succeeded") + promotion(profile),
        ),
    )


def workflow_template(profile: Profile, planned: Planned) -> WorkflowTemplate:
    """The template that plans, runs each task's batches, and reports the end whatever happens."""
    return WorkflowTemplate(
        name=planned.name,
        namespace=profile.namespace,
        labels={"app.kubernetes.io/part-of": "argosy"},
        annotations={
            "workflows.argoproj.io/title": planned.title,
            "workflows.argoproj.io/description": planned.description,
        },
        entrypoint=MAIN,
        on_exit=END,
        arguments=[
            Parameter(name=each.name, value=each.value, description=each.description, enum=each.enum or None)
            for each in planned.fields
        ],
        templates=[_dag(profile, planned), _plan(profile, planned), *steps(profile, planned.tasks),
                   *planned.after.templates, _end(), _finish(profile)],
        workflow_metadata=m.WorkflowMetadata(labels={"argosy/pipeline": planned.name}),
        **_settings(profile),
    )


def _settings(profile: Profile) -> dict[str, Any]:
    keep, ids = profile.keep, profile.user
    return {
        "service_account_name": profile.service_account,
        # The executor's container has a token; what steps run has none.
        "automount_service_account_token": False,
        "executor": m.ExecutorConfig(service_account_name=profile.executor_account),
        "security_context": m.PodSecurityContext(
            run_as_non_root=True,
            run_as_user=ids,
            run_as_group=ids,
            fs_group=ids,
            fs_group_change_policy="OnRootMismatch",
            seccomp_profile=m.SeccompProfile(type="RuntimeDefault"),
        ),
        "volumes": volumes(profile),
        "parallelism": profile.parallelism,
        "active_deadline_seconds": profile.deadline_s,
        "scheduler_name": profile.scheduler,
        "image_pull_secrets": [m.LocalObjectReference(name=each) for each in profile.images.pull_secrets] or None,
        "ttl_strategy": m.TTLStrategy(seconds_after_success=keep.success_s, seconds_after_failure=keep.failure_s),
        "pod_gc": m.PodGC(strategy=keep.pods, delete_delay_duration="60s"),
        "archive_logs": keep.archive_logs or None,
        # Evicting a step for a node's maintenance is fine (it goes on elsewhere), so there is no disruption budget.
        "pod_metadata": m.Metadata(labels={"app.kubernetes.io/part-of": "argosy"}),
    }


def _dag(profile: Profile, planned: Planned) -> DAG:
    tasks: list[Task | m.DAGTask] = [Task(name=PLAN, template=PLAN)]
    for task in planned.tasks:
        before = [f"({name}.Succeeded || {name}.Skipped)" for name in task.upstream]
        tasks.append(
            Task(
                name=task.name,
                template=template_of(profile, task),
                depends=" && ".join([f"{PLAN}.Succeeded", *before]),
                with_param=f"{{{{tasks.{PLAN}.outputs.parameters.{task.parameter}}}}}",
                arguments=[
                    Parameter(name="batch", value="{{item}}"),
                    Parameter(name="patch", value=_of_task("patches", task)),
                    Parameter(name="memory", value=_of_task("memory", task)),
                ],
            )
        )
    return DAG(name=MAIN, fail_fast=False, target=planned.target, tasks=[*tasks, *planned.after.tasks])


def _of_task(output: str, task: StageTask) -> str:
    return f"{{{{=sprig.fromJson(tasks.{PLAN}.outputs.parameters.{output})['{task.name}']}}}}"


def _plan(profile: Profile, planned: Planned) -> Container:
    outputs = [*(task.parameter for task in planned.tasks), "patches", "memory", "summary", *planned.plan_outputs]
    args = [PLAN, planned.name, "--profile", parameter("profile"), "--workflow", WORKFLOW,
            "--image-tag", parameter("image-tag"), "--priority", parameter("priority")]  # fmt: skip
    return container(
        PLAN,
        profile,
        [*args, *planned.plan_args],
        env=[(TEMPLATE_STORE, profile.storage.place), *planned.plan_env],
        outputs=[_output(name) for name in outputs] + [_output(FINISH, global_name=FINISH)],
        active_deadline_seconds=profile.plan_deadline_s,
        retry_strategy=retry(profile, LATE),
    )


def _output(name: str, global_name: str | None = None) -> Parameter:
    return Parameter(name=name, value_from=m.ValueFrom(path=f"{OUTPUTS}/{name}"), global_name=global_name)


def _end() -> DAG:
    """The exit handler: `finish`, without a pod where the plan found nothing to do and all went well."""
    idle = f"workflow.status == 'Succeeded' && (workflow.outputs?.parameters?.{FINISH} ?? 'yes') == 'no'"
    return DAG(name=END, tasks=[Task(name=FINISH, template=FINISH, when=f"{{{{=!({idle})}}}}")])


def _finish(profile: Profile) -> Container:
    args = [FINISH, "--workflow", WORKFLOW, "--profile", parameter("profile"), "--status", "{{workflow.status}}"]
    env = [
        ("ARGOSY_STOPPED", f"{{{{={failures.stopped()}}}}}"),
        ("ARGOSY_FAILURES", f"{{{{={failures.digest()}}}}}"),
        ("ARGOSY_RETRY", "{{retries}}"),
    ]
    # A pod whose image is not there would hold the workflow open for ever. What is not told then, the reconciler tells.
    limit = max(profile.plan_deadline_s, FINISH_S)
    return container(FINISH, profile, args, env=env, active_deadline_seconds=limit, retry_strategy=retry(profile, LATE))
