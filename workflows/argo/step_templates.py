"""The templates that run batches: one for each semaphore that stages take, and one for those that take none."""

from __future__ import annotations

from collections.abc import Sequence

from hera.workflows import Container
from hera.workflows import models as m

from workflows.argo.containers import WORKFLOW, container, parameter, retry
from workflows.argo.memory import cause, factors, step
from workflows.argo.pod_spec import MEMORY
from workflows.argo.profile import Profile
from workflows.argo.tasks import Task as StageTask

STEP = "step"


def steps(profile: Profile, tasks: Sequence[StageTask]) -> list[Container]:
    """A template for each semaphore that stages take, and one for those that take none."""
    found = {template_of(profile, task): profile.of_stage(task.stage).slot for task in tasks}
    return [_step(profile, name, slot) for name, slot in sorted(found.items())]


def template_of(profile: Profile, task: StageTask) -> str:
    """Name of the template that a task's pods are made by."""
    slot = profile.of_stage(task.stage).slot
    return f"{STEP}-{slot.replace('/', '-').replace('.', '-').replace('_', '-').lower()}" if slot else STEP


def _step(profile: Profile, name: str, slot: str) -> Container:
    return container(
        name,
        profile,
        ["run", "--workflow", WORKFLOW, "--profile", parameter("profile"), "--batch", "{{inputs.parameters.batch}}"],
        env=[
            ("ARGOSY_LAST_EXIT", "{{lastRetry.exitCode}}"),
            ("ARGOSY_LAST_CAUSE", f"{{{{={cause()}}}}}"),
            ("ARGOSY_MEMORY_STEP", f"{{{{=string({step(profile.retry)})}}}}"),
            ("ARGOSY_RETRY", "{{retries}}"),
        ],
        inputs=["batch", "patch", "memory"],
        resources=None,
        pod_spec_patch=_patch(profile),
        retry_strategy=retry(profile),
        synchronization=_synchronization(slot),
    )


def _patch(profile: Profile) -> str:
    """The plan's patch, with more memory after each time that there was too little."""
    given = f"asInt(inputs.parameters.memory) * {factors(profile.retry)}[{step(profile.retry)}]"
    return f"{{{{=sprig.replace('{MEMORY}', string(int({given})) + 'Mi', inputs.parameters.patch)}}}}"


def _synchronization(slot: str) -> m.Synchronization:
    """Two workflows that share a node take turns, without a waiting pod; training takes a slot, where asked for."""
    mutexes = [m.Mutex(name="{{inputs.parameters.batch}}")]
    if not slot:
        return m.Synchronization(mutexes=mutexes)
    name, key = slot.split("/")
    reference = m.SemaphoreRef(config_map_key_ref=m.ConfigMapKeySelector(name=name, key=key))
    return m.Synchronization(mutexes=mutexes, semaphores=[reference])
