"""A WorkflowTemplate whose first pod plans, whose tasks run batches, and whose exit handler reports the end."""

import hashlib
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from hera.workflows import DAG, Container, Parameter, Resource, RetryStrategy, Step, Steps, Task, WorkflowTemplate
from hera.workflows import models as m

from workflows.argo.attempts import AVOID, LATE, cause, elsewhere, memory_factors, memory_step, stopped
from workflows.argo.handoff import COMMON, GIVEN, LABELS, OUTPUTS, nearest_upstream
from workflows.argo.handoff import Task as StageTask
from workflows.argo.manifests.containers import WORKFLOW, Tail, container, parameter, retry
from workflows.argo.pod.jobset import JOBSET, MANIFEST, NODES, RUNTIME
from workflows.argo.pod.outputs import JOBSETS, MEMORY
from workflows.argo.profile.pods import settings, volumes
from workflows.argo.profile.profile import TEMPLATE_STORE, Profile
from workflows.argo.profile.queues import NoQueue
from workflows.argo.profile.settings import Placement

STEP = "step"
MAIN, PLAN, END, FINISH = "main", "plan", "end", "finish"
REMAKE, CREATE, WAIT = "remake", "create", "wait"
PATCHES, MEMORIES = "patches", "memory"  # outputs of the plan, by task
GIVEN_NAMES = "{{=sprig.join(' ', keys(workflow.parameters))}}"  # not the values: a config may be long
FINISH_S = 1800  # seconds that the exit handler has, at least


def form_field(name: str, value: str, description: str, enum: Sequence[str] = ()) -> Parameter:
    """Make a parameter that people may set: its default, its meaning, and the allowed values (none: any)."""
    return Parameter(name=name, value=value, description=description, enum=list(enum) or None)


def common_fields(profile: Profile) -> list[Parameter]:
    return [
        form_field("profile", profile.name, "Cluster profile: images, devices and places of the pods"),
        form_field("image-tag", profile.images.tag, "Tag of the images argosy-data and argosy-train"),
        form_field("priority", "", "PriorityClass of the pods. Empty: the cluster's default", ["", *profile.priorities])
    ]


def steps(profile: Profile, tasks: Sequence[StageTask]) -> list[Container]:
    """Make a template for each semaphore that stages take, and one for those that take none; so too of the queue."""
    found = {template_of(profile, task.placed): profile.of_stage(task.placed) for task in tasks}
    # The plan's patch, with more memory after each time that there was too little.
    memory = f"asInt(inputs.parameters.memory) * {memory_factors(profile.retry)}[{memory_step(profile.retry)}]"
    patch = f"{{{{=sprig.replace('{MEMORY}', string(int({memory})) + 'Mi', {elsewhere('inputs.parameters.patch')})}}}}"
    args = ["run", "--workflow", WORKFLOW, "--profile", parameter("profile"), "--batch", "{{inputs.parameters.batch}}"]
    env = [("ARGOSY_LAST_EXIT", "{{lastRetry.exitCode}}"), ("ARGOSY_LAST_CAUSE", f"{{{{={cause()}}}}}"),
           ("ARGOSY_MEMORY_STEP", f"{{{{=string({memory_step(profile.retry)})}}}}"), ("ARGOSY_RETRY", "{{retries}}")]
    return [container(name, profile, args, env=env, inputs=["batch", "patch", "memory"], resources=None,
                      pod_spec_patch=patch, retry_strategy=retry(profile), outputs=[output(AVOID, seen=True, default=(
                          f"{{{{=workflow.outputs.parameters.{AVOID}}}}}"))],
                      synchronization=_synchronization(profile, placed.slot), **_queue(profile, placed))
            for name, placed in sorted(found.items())]  # fmt: skip


def template_of(profile: Profile, stage: str) -> str:
    """Name the template of a stage's pods."""
    placed = profile.of_stage(stage)
    parts = (STEP, re.sub("[/._]", "-", placed.slot.lower()), "queued" if placed.queued else "")
    return "-".join(filter(None, parts))


def _queue(profile: Profile, placed: Placement) -> dict[str, Any]:
    """Make the part of a template by which its pods, each alone, wait in the queue."""
    queue = profile.queue if placed.queued else NoQueue()
    return {"labels": dict(queue.labels) or None, "annotations": dict(queue.annotations(1)) or None,
            "scheduler_name": queue.scheduler or None}


def _synchronization(profile: Profile, slot: str) -> m.Synchronization:
    """Let workflows that share a node of a store take turns, without a waiting pod; training takes a slot."""
    store = hashlib.sha256(profile.storage.description.encode()).hexdigest()[:8]
    mutexes = [m.Mutex(name=f"{{{{inputs.parameters.batch}}}}-{store}")]
    if not slot:
        return m.Synchronization(mutexes=mutexes)
    name, key = slot.split("/")
    reference = m.SemaphoreRef(config_map_key_ref=m.ConfigMapKeySelector(name=name, key=key))
    return m.Synchronization(mutexes=mutexes, semaphores=[reference])


@dataclass(frozen=True)
class Planned:
    """A template whose first pod plans: its name, its form, the command that plans, and what follows its tasks."""

    name: str
    title: str
    description: str
    fields: Sequence[Parameter]
    tasks: Sequence[StageTask]
    plan_args: Sequence[str] = ()
    plan_env: Sequence[tuple[str, str]] = ()
    plan_outputs: Sequence[str] = ()
    seen_by_all: Sequence[str] = ()
    """Outputs of the plan that the templates of `after` read as outputs of the workflow."""
    after: Tail = field(default_factory=Tail)
    target: str | None = None
    """Tasks whose success is the workflow's; by default those that no other one waits for."""


def workflow_template(profile: Profile, planned: Planned) -> WorkflowTemplate:
    """Make the template that plans, runs each task's batches, and reports the end whatever happens."""
    # Without a pod where the plan found nothing to do and all went well.
    idle = f"workflow.status == 'Succeeded' && (workflow.outputs?.parameters?.{FINISH} ?? 'yes') == 'no'"
    args = [FINISH, "--workflow", WORKFLOW, "--profile", parameter("profile"), "--status", "{{workflow.status}}"]
    env = [("ARGOSY_STOPPED", f"{{{{={stopped()}}}}}")]
    # A pod whose image is not there would hold the workflow open for ever. What is not told then, the reconciler tells.
    finish = container(FINISH, profile, args, env=env, retry_strategy=retry(profile, LATE),
                       active_deadline_seconds=max(profile.plan_deadline_s, FINISH_S))  # fmt: skip
    end = DAG(name=END, tasks=[Task(name=FINISH, template=FINISH, when=f"{{{{=!({idle})}}}}")])
    return WorkflowTemplate(
        name=planned.name, namespace=profile.namespace, labels={"app.kubernetes.io/part-of": "argosy"},
        annotations={"workflows.argoproj.io/title": planned.title,
                     "workflows.argoproj.io/description": planned.description},
        entrypoint=MAIN, on_exit=END, arguments=list(planned.fields),
        templates=[_dag(profile, planned), _plan(profile, planned), *steps(profile, planned.tasks),
                   *(nodes_templates(profile) if profile.nodes else []), *planned.after.templates, end, finish],
        workflow_metadata=m.WorkflowMetadata(labels={"argosy/pipeline": planned.name}),
        **_settings(profile),
    )  # fmt: skip


def _settings(profile: Profile) -> dict[str, Any]:
    keep, own = profile.keep, settings(profile)
    return {
        "service_account_name": own["serviceAccountName"],
        "automount_service_account_token": own["automountServiceAccountToken"],
        "executor": m.ExecutorConfig(service_account_name=profile.executor_account),  # which has a token
        "security_context": m.PodSecurityContext.model_validate(own["securityContext"]),
        "volumes": [m.Volume.model_validate(each) for each in volumes(profile, parameter("profile"))],
        "parallelism": profile.parallelism,
        "active_deadline_seconds": profile.deadline_s,
        "scheduler_name": own.get("schedulerName"),
        "image_pull_secrets": list(map(m.LocalObjectReference.model_validate, own.get("imagePullSecrets", ()))) or None,
        "ttl_strategy": m.TTLStrategy(seconds_after_success=keep.success_s, seconds_after_failure=keep.failure_s),
        "pod_gc": m.PodGC(strategy=keep.pods, delete_delay_duration="60s"),
        "archive_logs": keep.archive_logs or None,
        # Evicting a step for a node's maintenance is fine (it goes on elsewhere), so there is no disruption budget.
        "pod_metadata": m.Metadata(labels={"app.kubernetes.io/part-of": "argosy"}),
    }


def _dag(profile: Profile, planned: Planned) -> DAG:
    tasks: list[Task | m.DAGTask] = [Task(name=PLAN, template=PLAN)]
    for task in planned.tasks:
        batches = f"fromJSON({_output_of(task.parameter)})"
        if task.parts:  # a pod for each batch, called by what tells it from the others, such as `1of3`
            same = f"'{task.name}-' + {_output_of(COMMON)}"
            how: dict[str, Any] = {"with_param": f"{{{{=toJson(map({batches}, {{trimPrefix(#, {same})}}))}}}}"}
            batch = f"{task.name}-{{{{tasks.{PLAN}.outputs.parameters.{COMMON}}}}}{{{{item}}}}"
        else:  # skipped where the plan has no batch for it, and called by its plain name
            joined = f"sprig.join('', {batches})"
            how, batch = {"when": f"{{{{={joined} != ''}}}}"}, f"{{{{={joined}}}}}"
        given = {"batch": batch, "patch": _of_task(PATCHES, task), "memory": _of_task(MEMORIES, task)}
        arguments = [Parameter(name=name, value=value) for name, value in given.items()]
        if profile.nodes and task.several:
            tasks.append(_nodes_task(planned, task, batch))
        tasks.append(Task(name=task.name, template=template_of(profile, task.placed), arguments=arguments,
                          depends=after(planned.tasks, task), **how))  # fmt: skip
    return DAG(name=MAIN, fail_fast=False, target=planned.target, tasks=[*tasks, *planned.after.tasks])


def _nodes_task(planned: Planned, task: StageTask, batch: str) -> Task:
    """Make the task of a stage's further nodes, beside the task of its own pod, where the plan has some."""
    wanted = f"fromJSON({_output_of(JOBSETS)})"
    manifest = Parameter(name=JOBSET, value=f"{{{{={wanted}['{task.name}'] ?? ''}}}}")
    return Task(name=f"{task.name}-{NODES}", template=NODES, arguments=[manifest, Parameter(name="batch", value=batch)],
                depends=after(planned.tasks, task), when=f"{{{{='{task.name}' in {wanted}}}}}")


# Argo's init container writes the manifest below /tmp, which its root file system does not let it.
_OWN_TMP = {"initContainers": [{"name": "init", "volumeMounts": [
    {"name": "tmp-dir-argo", "mountPath": "/tmp", "subPath": "0"}]}]}


# By kind of `nodes`: what the template waits for. Of failures any counts, for success all must hold. Argo finds no
# condition by its type: a TrainJob's are at most two, and it ends well with its one Job.
_ENDS = {"JobSet": ("status.terminalState == Completed", "status.terminalState == Failed"),
         "TrainJob": ("status.jobsStatus.0.succeeded == 1",
                      "status.conditions.0.type == Failed, status.conditions.1.type == Failed")}


def nodes_templates(profile: Profile) -> list[Steps | Container | Resource]:
    """Make the template that creates a JobSet, or a TrainJob after its runtime, and waits for its end. One that fails
    is made again, as another, by what the store says of the attempts before: its pods may have more memory."""
    assert profile.nodes is not None
    given = {JOBSET: f"{{{{inputs.parameters.{JOBSET}}}}}", "batch": "{{inputs.parameters.batch}}",
             "attempt": "{{retries}}"}
    args = [REMAKE, "--workflow", WORKFLOW, "--profile", parameter("profile"),
            *(f"--{name}={{{{inputs.parameters.{name}}}}}" for name in ("batch", "attempt"))]  # fmt: skip
    made = {(CREATE, CREATE): JOBSET, (WAIT, WAIT): JOBSET}
    if profile.nodes.kind == "TrainJob":
        made = {(RUNTIME, CREATE): RUNTIME, **made}
    values = {how: f"steps.{REMAKE}.outputs.parameters.{output}" for how, output in made.items()}
    resource: dict[str, Any] = {"inputs": [Parameter(name=JOBSET)], "manifest": given[JOBSET],
                                "pod_spec_patch": json.dumps(_OWN_TMP)}
    success, failure = _ENDS[profile.nodes.kind]
    # A pod in the place of one that is evicted waits on, unless the JobSet failed or is gone.
    again = RetryStrategy(limit=str(profile.retry.interruptions), retry_policy="Always",
                          expression="not (lastRetry.message matches 'failure condition|been deleted|not found')")
    return [
        Steps(name=NODES, inputs=[Parameter(name=name) for name in (JOBSET, "batch")],
              sub_steps=[Step(name=REMAKE, template=f"{NODES}-{REMAKE}", arguments=given),
                         *(Step(name=name, template=f"{NODES}-{how}", arguments={JOBSET: f"{{{{{value}}}}}"},
                                when=f"{{{{={value} != ''}}}}") for (name, how), value in values.items())],
              # Once more than JobSets are made: the last attempt tells the launcher.
              retry_strategy=RetryStrategy(limit=str(profile.retry.interruptions + 1), retry_policy="Always")),
        container(f"{NODES}-{REMAKE}", profile, args, env=[(MANIFEST, given[JOBSET])], inputs=[*given],
                  outputs=[output(JOBSET), output(RUNTIME)], retry_strategy=retry(profile)),
        Resource(name=f"{NODES}-{CREATE}", action="create", set_owner_reference=True, **resource),
        Resource(name=f"{NODES}-{WAIT}", action="get", success_condition=success, failure_condition=failure,
                 retry_strategy=again, **resource),
    ]  # fmt: skip


def after(tasks: Sequence[StageTask], task: StageTask) -> str:
    """Make the condition on which a task of `tasks` begins."""
    upstream = nearest_upstream(tasks)[task.name]  # an edge more, and the UI hides the children of a node
    return " && ".join(f"({name}.Succeeded || {name}.Skipped)" for name in upstream) or f"{PLAN}.Succeeded"


def _output_of(name: str) -> str:
    return f"tasks.{PLAN}.outputs.parameters['{name}']"


def _of_task(output: str, task: StageTask) -> str:
    return f"{{{{=fromJSON({_output_of(output)})['{task.name}']}}}}"


def output(name: str, *, seen: bool = False, default: str | None = None) -> Parameter:
    """Make an output that a pod leaves as a file; `seen` by all templates."""
    path = m.ValueFrom(path=f"{OUTPUTS}/{name}", default=default)
    return Parameter(name=name, value_from=path, global_name=name if seen else None)


def _plan(profile: Profile, planned: Planned) -> Container:
    outputs = [*(task.parameter for task in planned.tasks), PATCHES, MEMORIES, JOBSETS, AVOID, "summary", COMMON,
               *planned.plan_outputs, FINISH]  # fmt: skip
    seen = (FINISH, AVOID, *planned.seen_by_all)
    args = [PLAN, planned.name, "--profile", parameter("profile"), "--workflow", WORKFLOW,
            "--image-tag", parameter("image-tag"), "--priority", parameter("priority"),
            "--fields", " ".join(str(each.name) for each in planned.fields)]  # fmt: skip
    return container(
        PLAN, profile, [*args, *planned.plan_args],
        env=[(TEMPLATE_STORE, profile.storage.description), (GIVEN, GIVEN_NAMES),
             (LABELS, "{{workflow.labels.json}}"), *planned.plan_env],
        outputs=[output(name, seen=name in seen) for name in outputs],
        active_deadline_seconds=profile.plan_deadline_s, retry_strategy=retry(profile, LATE))
