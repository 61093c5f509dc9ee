"""The report as artifacts of a task of its own: without an artifact repository that task is red, and nothing else."""

from __future__ import annotations

from hera.workflows import DAG, Parameter, Task
from hera.workflows import models as m

from workflows.argo.containers import WORKFLOW, Tail, artifact, container, parameter, worth_retrying
from workflows.argo.profile import Profile

REPORT, SHOW = "report", "show"
FILES = {"report": "report.html", "comparison": "comparison.html"}  # artifacts that the UI shows in the node's panel


def showing(profile: Profile, after: str, *how: str) -> Tail:
    """The task `report` once `after` has ended in one of the ways `how`; nothing where the profile wants none."""
    if not profile.artifacts:
        return Tail()
    depends = " || ".join(f"{after}.{each}" for each in how)
    task = Task(name=REPORT, template=REPORT, depends=depends)
    # A DAG of one pod: what that pod does not manage, such as to reach the repository, fails no workflow.
    ours = m.ContinueOn(error=True, failed=True)
    inner = DAG(name=REPORT, tasks=[Task(name=SHOW, template=SHOW, continue_on=ours)])
    args = [SHOW, "--workflow", WORKFLOW, "--profile", parameter("profile")]
    tries = m.RetryStrategy(
        limit="3",
        retry_policy="Always",
        expression=worth_retrying(),
        backoff=m.Backoff(duration=str(profile.retry.pause_s), factor=2),
    )
    outputs: list[Parameter] = [artifact(name, file) for name, file in FILES.items()]  # type: ignore[misc]
    pod = container(SHOW, profile, args, outputs=outputs, retry_strategy=tries)
    return Tail([task], [inner, pod])
