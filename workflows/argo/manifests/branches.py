"""The task and the template that run a tree of post-training of any shape (workflows/argo/pod/branches.py).

The plan's outputs are read as outputs of the workflow, since a template inside a template sees no task of the DAG
around it. Argo evaluates an expression with `item` for each item, and one with the group's name when the group begins:
none has both."""

from collections.abc import Sequence
from dataclasses import replace

from hera.workflows import DAG, Parameter, Task

from workflows.argo.handoff import Task as StageTask
from workflows.argo.manifests.containers import Tail
from workflows.argo.manifests.workflow import MEMORIES, PATCHES, PLAN, after, template_of
from workflows.argo.pod.branches import BATCHES, EVALUATE, GROUPS, NEXT, PATCH_OF_EVALUATIONS, TREE
from workflows.argo.profile.profile import Profile, placement_stage
from workflows.branches import branch_steps

BRANCH, GROUP = "branch", "group"
GLOBAL = (GROUPS, BATCHES, PATCHES, MEMORIES)  # outputs of the plan that templates of templates see
_GROUP = f"fromJSON(workflow.outputs.parameters.{GROUPS})[inputs.parameters.{GROUP}]"


def with_tree(tasks: Sequence[StageTask]) -> list[StageTask]:
    """Let the comparison wait for the tree."""
    return [replace(task, upstream=(*task.upstream, TREE)) if task.stage == "compare" else task for task in tasks]


def tree(profile: Profile, tasks: Sequence[StageTask]) -> Tail:
    """Make the task of the tree, which waits for what post-training waits for, and the template of a group."""
    first = next(task for task in tasks if task.stage == "sft")
    groups = f"{{{{tasks.{PLAN}.outputs.parameters.{TREE}}}}}"
    task = Task(name=TREE, template=BRANCH, depends=after(tasks, first), with_param=groups, arguments=[_given()])
    return Tail([task], [_branch(profile)])


def _branch(profile: Profile) -> DAG:
    """Make the DAG of a group: its items by step, then their evaluations, and beside these the groups that follow."""
    steps = [_work(step, template_of(profile, placement_stage("", step)), "item") for step in branch_steps()]
    done = " && ".join(f"({task.name}.Succeeded || {task.name}.Skipped)" for task in steps)
    evaluate = _work(EVALUATE, template_of(profile, EVALUATE), f"'{PATCH_OF_EVALUATIONS}'", done)
    following = Task(name=NEXT, template=BRANCH, depends=done, with_param=_listed(NEXT), arguments=[_given()])
    return DAG(name=BRANCH, inputs=[Parameter(name=GROUP)], fail_fast=False, tasks=[*steps, evaluate, following])


def _work(key: str, template: str, patch: str, depends: str | None = None) -> Task:
    """Make a task with a pod for each of a list of the group. `patch`: expression of the name of the pods' patch."""
    def of(output: str, name: str) -> str:
        return f"{{{{=fromJSON(workflow.outputs.parameters.{output})[{name}]}}}}"

    given = {"batch": of(BATCHES, "item"), "patch": of(PATCHES, patch), "memory": of(MEMORIES, patch)}
    return Task(name=key.replace("_", "-"), template=template, depends=depends, with_param=_listed(key),
                arguments=[Parameter(name=name, value=value) for name, value in given.items()])  # fmt: skip


def _listed(key: str) -> str:
    return f"{{{{=toJson({_GROUP}['{key}'])}}}}"


def _given() -> Parameter:
    return Parameter(name=GROUP, value="{{item}}")
