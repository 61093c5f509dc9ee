"""Of a cluster profile: what pods get, by stage."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal, Self

from pydantic import Field, model_validator

from argosy.config import Config
from workflows.argo.credentials import secret_names

Quantity = Annotated[str, Field(pattern=r"^[0-9]+(\.[0-9]+)?(m|k|M|G|T|Ki|Mi|Gi|Ti)?$")]


class Images(Config):
    """Image by what a step needs: `data` is light, `train` has torch. With `tag`, a workflow's tag replaces it."""

    data: str = "argosy-data"
    train: str = "argosy-train"
    tag: str = "latest"
    pull_policy: Literal["Always", "IfNotPresent", "Never"] = "IfNotPresent"
    pull_secrets: tuple[str, ...] = ()

    def of(self, needs: str, tag: str = "") -> str:
        """The image of a step; one that is given by digest (@sha256:...) keeps it."""
        image: str = getattr(self, needs)
        return image if "@" in image else f"{image}:{tag or self.tag}"


class Devices(Config):
    """Accelerators of a pod and what they need.

    Attributes:
        gpus: how many of `resource`.
        rdma: by resource name, such as rdma/hca: 1; adds IPC_LOCK.
        shm: size of /dev/shm, which NCCL and data loaders use.
    """

    gpus: int = Field(0, ge=0)
    resource: str = "nvidia.com/gpu"
    rdma: Mapping[str, int] = Field(default_factory=dict)
    shm: Quantity | None = None


class Placement(Config):
    """What a stage's pods get beside its cores and memory. Raw Kubernetes objects where the key is Kubernetes' own."""

    cpu: Quantity | None = Field(None, description="instead of the stage's cores")
    memory: Quantity | None = Field(None, description="instead of the stage's memory_gb")
    ephemeral_storage: Quantity | None = None
    devices: Devices = Devices()
    env: Mapping[str, str] = Field(default_factory=dict)
    secrets: tuple[str, ...] = Field((), description="Secrets whose keys become environment variables")
    node_selector: Mapping[str, str] = Field(default_factory=dict)
    tolerations: tuple[Mapping[str, Any], ...] = ()
    volumes: tuple[Mapping[str, Any], ...] = ()
    volume_mounts: tuple[Mapping[str, Any], ...] = ()
    runtime_class: str | None = None
    deadline_s: int | None = Field(None, ge=1, description="seconds after which a pod is ended as failed")
    slot: str = Field("", pattern=r"^([a-z0-9.-]+/[A-Za-z0-9._-]+)?$", description="CONFIGMAP/KEY of a semaphore")

    @model_validator(mode="after")
    def _check(self) -> Self:
        if given := sorted(secret_names(self.env)):
            raise ValueError(f"env has {given[0]}: credentials come from a Secret that secrets names")
        return self


def joined(base: Placement, own: Placement) -> Placement:
    """What `own` sets on top of `base`; lists and maps are joined."""
    values: dict[str, Any] = {}
    for name in Placement.model_fields:
        below, above = getattr(base, name), getattr(own, name)
        if name not in own.model_fields_set:
            values[name] = below
        elif isinstance(below, tuple):
            values[name] = (*below, *above)
        elif isinstance(below, Mapping):
            values[name] = {**below, **above}
        else:
            values[name] = above
    return Placement.model_construct(**values)
