"""Templates of the lifecycle that run themselves again: a group of the tree of post-training, and the evaluation of
exports while their stages still train."""

from collections.abc import Mapping, Sequence

from hera.workflows import DAG, Parameter, Task
from hera.workflows import models as m

from workflows.argo.handoff import EVALUATE
from workflows.argo.handoff import Task as StageTask
from workflows.argo.manifests.containers import WORKFLOW, Tail, container, parameter, retry
from workflows.argo.manifests.workflow import MEMORIES, PATCHES, PLAN, after, output, template_of
from workflows.argo.pod.early import EARLY, FOUND, REST, TASK
from workflows.argo.pod.jobset import JOBSET, NODES
from workflows.argo.pod.outputs import JOBSETS
from workflows.argo.pod.plan import BATCHES, GROUPS, NEXT, PATCH_OF_EVALUATIONS, TREE
from workflows.argo.profile.profile import Profile, placement_stage
from workflows.branches import branch_steps

BRANCH, GROUP = "branch", "group"
GLOBAL = (GROUPS, BATCHES, PATCHES, MEMORIES, JOBSETS)  # outputs of the plan that templates of templates see
_LISTED = f"{{{{{{{{=toJson(fromJSON(workflow.outputs.parameters.{GROUPS})[inputs.parameters.{GROUP}]['{{}}'])}}}}}}}}"
FOLLOW, WAIT, OVER = "follow", "wait", "over"


def tree(profile: Profile, tasks: Sequence[StageTask]) -> Tail:
    """Make the task of the tree, which waits for what post-training waits for, and the template of a group.

    That is a DAG of its items by step, beside them the JobSets of those on several nodes, then their evaluations, and
    beside these the groups that follow."""
    first = next(task for task in tasks if task.stage == "sft")
    groups = f"{{{{tasks.{PLAN}.outputs.parameters.{TREE}}}}}"
    item = [Parameter(name=GROUP, value="{{item}}")]
    task = Task(name=TREE, template=BRANCH, depends=after(tasks, first), with_param=groups, arguments=item)
    steps = [_work(step, template_of(profile, placement_stage("", step)), "item") for step in branch_steps()]
    done = " && ".join(f"({task.name}.Succeeded || {task.name}.Skipped)" for task in steps)
    evaluate = _work(EVALUATE.name, template_of(profile, EVALUATE.stage), f"'{PATCH_OF_EVALUATIONS}'", done)
    following = Task(name=NEXT, template=BRANCH, depends=done, with_param=_LISTED.format(NEXT), arguments=item)
    nodes = _each(NODES, NODES, {JOBSET: (JOBSETS, "item"), "batch": (BATCHES, "item")})
    branch = DAG(name=BRANCH, inputs=[Parameter(name=GROUP)], fail_fast=False,
                 tasks=[*steps, *([nodes] if profile.nodes else []), evaluate, following])
    return Tail([task], [branch])


def _work(key: str, template: str, patch: str, depends: str | None = None) -> Task:
    """Make a task with a pod for each of a list of the group. `patch`: expression of the name of the pods' patch."""
    return _each(key, template, {"batch": (BATCHES, "item"), "patch": (PATCHES, patch), "memory": (MEMORIES, patch)},
                 depends)


def _each(key: str, template: str, wanted: Mapping[str, tuple[str, str]], depends: str | None = None) -> Task:
    """Make a task of each name in a list of the group. `wanted`: by input, the plan's output and a key's expression."""
    given = {name: f"{{{{={_planned(*each)}}}}}" for name, each in wanted.items()}
    return Task(name=key.replace("_", "-"), template=template, depends=depends, with_param=_LISTED.format(key),
                arguments=[Parameter(name=name, value=value) for name, value in given.items()])  # fmt: skip


def _planned(output: str, name: str) -> str:
    """Expression: a value by its name in an output of the plan that all templates see."""
    return f"fromJSON(workflow.outputs.parameters.{output})[{name}]"


def following(profile: Profile, trains: Sequence[str]) -> Tail:
    """Make the task that evaluates exports while stages train, the one that ends its waiting once none trains any more,
    and their templates: a pod that waits, then beside each other its evaluation and, by itself again, the rest.

    `trains`: the tasks that train."""
    queue = f"{{{{tasks.{PLAN}.outputs.parameters.{EARLY}}}}}"
    wanted = f"{{{{=tasks.{PLAN}.outputs.parameters.{EARLY} != '[]'}}}}"
    common = ["--workflow", WORKFLOW, "--profile", parameter("profile")]
    wait = container(WAIT, profile, [WAIT, *common, "--queue", "{{inputs.parameters.queue}}"], inputs=["queue"],
                     outputs=[output(each) for each in (FOUND, TASK, REST)], retry_strategy=retry(profile))  # fmt: skip
    given = {name: f"{{{{tasks.{WAIT}.outputs.parameters.{name}}}}}" for name in (FOUND, TASK, REST)}
    of = {name: f"{{{{={_planned(output, f'tasks.{WAIT}.outputs.parameters.{TASK}')} ?? ''}}}}"
          for name, output in (("patch", PATCHES), ("memory", MEMORIES))}
    ours = m.ContinueOn(error=True, failed=True)  # what fails here is retried after its stage
    follow = DAG(name=FOLLOW, inputs=[Parameter(name="queue")], tasks=[
        Task(name=WAIT, template=WAIT, arguments=[Parameter(name="queue", value="{{inputs.parameters.queue}}")]),
        Task(name=EVALUATE.name, template=template_of(profile, EVALUATE.stage), dependencies=[WAIT], continue_on=ours,
             when=f"{{{{=tasks.{WAIT}.outputs.parameters.{FOUND} != ''}}}}", arguments={"batch": given[FOUND], **of}),
        Task(name="rest", template=FOLLOW, dependencies=[WAIT], continue_on=ours,
             when=f"{{{{=tasks.{WAIT}.outputs.parameters.{REST} != '[]'}}}}", arguments={"queue": given[REST]})])
    early = DAG(name=EARLY, inputs=[Parameter(name="queue")], tasks=[
        Task(name=FOLLOW, template=FOLLOW, continue_on=ours, arguments={"queue": "{{inputs.parameters.queue}}"})])
    # In any way, also omitted; but without the plan's outputs Argo cannot tell `when`, and never ends the workflow.
    ended = " && ".join([f"{PLAN}.Succeeded", *(f"({name}.Succeeded || !{name}.Succeeded)" for name in trains)])
    return Tail([Task(name=EARLY, template=EARLY, depends=f"{PLAN}.Succeeded", when=wanted,
                      arguments={"queue": queue}),
                 Task(name=OVER, template=OVER, depends=ended, when=wanted)],
                [early, follow, wait, container(OVER, profile, ["end", *common], retry_strategy=retry(profile))])
