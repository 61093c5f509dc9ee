"""The tasks that evaluate the exports of stages while these still train, and their templates."""

from collections.abc import Sequence

from hera.workflows import DAG, Parameter, Task
from hera.workflows import models as m

from workflows.argo.handoff import EVALUATE, OUTPUTS
from workflows.argo.manifests.containers import WORKFLOW, Tail, container, parameter, retry
from workflows.argo.manifests.workflow import MEMORIES, PATCHES, PLAN, template_of
from workflows.argo.pod.early import EARLY, FOUND, REST, TASK
from workflows.argo.profile.profile import Profile

FOLLOW, WAIT, OVER = "follow", "wait", "over"


def following(profile: Profile, trains: Sequence[str]) -> Tail:
    """Make the task that evaluates exports while stages train, the one that ends its waiting once none trains any more,
    and their templates: a pod that waits, then beside each other its evaluation and, by itself again, the rest.

    `trains`: the tasks that train."""
    queue = f"{{{{tasks.{PLAN}.outputs.parameters.{EARLY}}}}}"
    wanted = f"{{{{=tasks.{PLAN}.outputs.parameters.{EARLY} != '[]'}}}}"
    common = ["--workflow", WORKFLOW, "--profile", parameter("profile")]
    wait = container(WAIT, profile, [WAIT, *common, "--queue", "{{inputs.parameters.queue}}"], inputs=["queue"],
                     outputs=[Parameter(name=each, value_from=m.ValueFrom(path=f"{OUTPUTS}/{each}"))
                              for each in (FOUND, TASK, REST)], retry_strategy=retry(profile))  # fmt: skip
    given = {name: f"{{{{tasks.{WAIT}.outputs.parameters.{name}}}}}" for name in (FOUND, TASK, REST)}
    of = {name: f"{{{{=fromJSON(workflow.outputs.parameters.{output})[tasks.{WAIT}.outputs.parameters.{TASK}] ?? ''}}}}"
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
    ended = " && ".join(f"({name}.Succeeded || !{name}.Succeeded)" for name in trains)  # in any way: also omitted
    return Tail([Task(name=EARLY, template=EARLY, depends=f"{PLAN}.Succeeded", when=wanted,
                      arguments={"queue": queue}),
                 Task(name=OVER, template=OVER, depends=ended, when=wanted)],
                [early, follow, wait, container(OVER, profile, ["end", *common], retry_strategy=retry(profile))])
