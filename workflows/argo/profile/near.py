"""Settings of a profile for data near the pods, where the store is a bucket: a cache on each node, or Fluid's."""

from collections.abc import Mapping
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from argosy.core.config.schema import Config
from workflows.argo.profile.quantities import FROM_SECRETS, Quantity, amount, has_password, secret_names

MOUNT = "store"  # of a Dataset: the folder of its volume in which the store is
Absolute = Annotated[str, Field(pattern=r"^/[^\s:]*$")]


class Cache(Config):
    """A cache on each node, which its pods share: what one has fetched from the bucket, others read there."""

    host_path: str = Field("", pattern=r"^(/[^\s:]*)?$")
    """A directory of each node that belongs to the profile's `user`."""
    claim: str = ""
    """Instead, a PersistentVolumeClaim: a local volume of a cluster of one node, or a fast file system with flock."""
    size: Quantity
    """Most that it holds of each node (or of the claim); files that no pod has used for the longest go first."""
    path: Absolute = "/cache"
    """Mount point in pods."""

    @model_validator(mode="after")
    def _check(self) -> Self:
        if bool(self.host_path) == bool(self.claim):
            raise ValueError("give one of host_path (a directory of each node) and claim (a PersistentVolumeClaim)")
        return self

    @property
    def bytes(self) -> int:
        """The size as a number."""
        return int(amount(self.size))


class Fluid(Config):
    """A cache of Fluid's: a Dataset of the bucket and its runtime, whose volume pods read; Fluid must be installed."""

    runtime: Literal["alluxio", "jindo"] = "alluxio"
    """The engine. JuiceFS, which keeps files in a format of its own, does not read a bucket as it is."""
    workers: int = Field(1, ge=1)
    """Pods that hold the cache, each on a node of its own."""
    size: Quantity
    """Capacity of each worker."""
    directory: Absolute = "/var/cache/fluid"
    """Directory of the cache on its node; one below /dev/shm is memory."""
    namespace: str = Field("", pattern=r"^([a-z0-9]([a-z0-9-]*[a-z0-9])?)?$", max_length=63)
    """Namespace of Fluid's pods, which are privileged; default: the profile's. Pods then read it by a Dataset that
    refers to that one."""
    secret: str = ""
    """A Secret there with AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY; default: the identity of the nodes."""
    endpoint: str = Field("", pattern=r"^(https?://\S+)?$")
    """Address of a server that is not Amazon's, as Fluid's pods reach it."""
    options: Mapping[str, str] = Field(default_factory=dict)
    """Further ones of the mount, as the engine calls them."""
    properties: Mapping[str, str] = Field(default_factory=dict)
    """Further ones of the engine."""
    path: Absolute = "/near"
    """Mount point in pods."""

    @model_validator(mode="after")
    def _check(self) -> Self:
        for name in ("options", "properties"):
            if given := sorted(secret_names(getattr(self, name))):
                raise ValueError(f"{name} has {given[0]}: credentials come from the Secret that secret names")
        if has_password(self.endpoint):
            raise ValueError(f"endpoint has a user before its host (not shown): {FROM_SECRETS}")
        return self

    @property
    def root(self) -> str:
        """The store, as pods see it."""
        return f"{self.path}/{MOUNT}"
