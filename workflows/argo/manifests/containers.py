"""The container that every template's pod is made of: same command line, same mounts, no rights."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from hera import workflows as hera
from hera.workflows import models as m

from workflows.argo.handoff import OUTPUTS
from workflows.argo.pod.outputs import REPORT_PAGE
from workflows.argo.profile.pods import COMMAND, NO_RIGHTS, Manifest, environment, mounts
from workflows.argo.profile.profile import Profile

WORKFLOW = "{{workflow.name}}"
# Failed for good, wrong input, no such command. Not 128: the container runtime could not start the container, for want
# of a device or a mount of its node.
NO_RETRY = ("1", "2", "126", "127")
# No pod was made, since a policy of the cluster refused it: a webhook, Pod Security, a ValidatingAdmissionPolicy.
REFUSED = "lastRetry.exitCode == '-1' && lastRetry.message matches 'denied (the )?request|violates PodSecurity'"
# What a pod asks for that only plans or reports; a step's pod gets its stage's resources.
LIGHT = m.ResourceRequirements(
    requests={"cpu": "100m", "memory": "256Mi"},
    limits={"memory": "1Gi"},  # plans of 10,000 nodes take 300 MB
)
REPORT, SHOW = "report", "show"
# Argo's executor could not send an artifact, after attempts of its own: the workflow does not wait for more of them.
UNSENT = "lastRetry.message matches '^(wait|supervisor): '"


def document(profile: Profile, api: str, kind: str, name: str, **content: Any) -> Manifest:
    """Make an object of ours in the profile's namespace."""
    metadata = {"name": name, "namespace": profile.namespace, "labels": {"app.kubernetes.io/part-of": "argosy"}}
    return {"apiVersion": api, "kind": kind, "metadata": metadata, **content}


def container(name: str, profile: Profile, args: Sequence[str], *, env: Sequence[tuple[str, str]] = (),
              secret_env: Sequence[hera.SecretEnv] = (), inputs: Sequence[str] = (), **more: Any) -> hera.Container:
    """Make a template `name` that runs `python -m workflows.argo.pod ARGS` in the data image."""
    given = [*environment(profile).items(), *env]
    return hera.Container(
        name=name, image=profile.images.of("data", parameter("image-tag")),
        image_pull_policy=profile.images.pull_policy, command=list(COMMAND), args=list(args),
        env=[*(hera.Env(name=key, value=value) for key, value in given), *secret_env],
        # Of an object store; steps' pods get theirs by their patch.
        env_from=[hera.SecretEnvFrom(name=name) for name in profile.defaults.secrets] if profile.storage.uri else None,
        inputs=[hera.Parameter(name=each) for each in inputs], resources=more.pop("resources", LIGHT),
        volume_mounts=[m.VolumeMount.model_validate(each) for each in mounts(profile)],
        security_context=m.SecurityContext.model_validate(NO_RIGHTS),
        termination_message_policy="FallbackToLogsOnError", **more)  # fmt: skip


@dataclass(frozen=True)
class Tail:
    """The tasks that follow the stages' tasks in a DAG, and the templates that they use."""

    tasks: Sequence[hera.Task] = ()
    templates: Sequence[hera.Container | hera.Suspend | hera.DAG] = ()

    def __add__(self, other: "Tail") -> "Tail":
        return Tail([*self.tasks, *other.tasks], [*self.templates, *other.templates])


def parameter(name: str) -> str:
    """Refer to the value of a workflow's parameter."""
    return f"{{{{workflow.parameters.{name}}}}}"


def retry(profile: Profile, *unless: str) -> hera.RetryStrategy:
    """Retry as often as the profile says, but never after a failure that another attempt would not fix.

    `unless`: further expressions of such failures."""
    given = profile.retry
    return hera.RetryStrategy(
        limit=str(given.interruptions + given.failures + given.out_of_memory), retry_policy="Always",
        expression=" && ".join((worth_retrying(), *(f"not ({each})" for each in unless))),
        backoff=m.Backoff(duration=str(given.pause_s), factor=2, cap=str(given.longest_pause_s)))


def worth_retrying() -> str:
    """Expression: whether an attempt ended in a way that another one may fix."""
    return f"lastRetry.exitCode not in [{', '.join(map(repr, NO_RETRY))}] && not ({REFUSED})"


def report_task(profile: Profile, after: str, *how: str) -> Tail:
    """Add the task `report` once `after` has ended in one of the ways `how`; none where the profile wants none."""
    if not profile.artifacts:
        return Tail()
    depends = " || ".join(f"{after}.{each}" for each in how)
    task = hera.Task(name=REPORT, template=REPORT, depends=depends)
    # A DAG of one pod: what that pod does not manage, such as to reach the repository, fails no workflow.
    ours = m.ContinueOn(error=True, failed=True)
    inner = hera.DAG(name=REPORT, tasks=[hera.Task(name=SHOW, template=SHOW, continue_on=ours)])
    args = [SHOW, "--workflow", WORKFLOW, "--profile", parameter("profile")]
    tries = m.RetryStrategy(limit="3", retry_policy="Always", expression=f"{worth_retrying()} && not ({UNSENT})",
                            backoff=m.Backoff(duration=str(profile.retry.pause_s), factor=2))
    # As it is, so that the UI shows it in the node's panel; one that is absent is none.
    page = hera.Artifact(name=REPORT, path=f"{OUTPUTS}/{REPORT_PAGE}", archive=m.ArchiveStrategy(none=m.NoneStrategy()),
                         optional=True)  # fmt: skip
    return Tail([task], [inner, container(SHOW, profile, args, outputs=[page], retry_strategy=tries)])
