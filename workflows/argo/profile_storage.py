"""Of a cluster profile: where results and metrics are kept, without credentials."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

from pydantic import Field, model_validator

from argosy.config import Config
from workflows.argo.credentials import has_password, secret_names
from workflows.argo.profile_placement import Quantity

_FROM_SECRETS = (
    "credentials come from a Secret that defaults.secrets names, as environment variables "
    "(AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_ENDPOINT_URL, MLFLOW_TRACKING_USERNAME, ...)"
)


class Storage(Config):
    """The store: where steps' directories are. One of `claim`, `host_path` and `uri`.

    Attributes:
        claim: a PersistentVolumeClaim that many pods can write (ReadWriteMany, with flock: NFS 4, CephFS, JuiceFS).
        host_path: a directory of the node, for clusters of one node.
        uri: an object store, as fsspec names it: s3://bucket/prefix, gs://..., az://...; it is the store itself.
        options: of that file system, such as {endpoint_url: "http://minio:9000"}; never credentials.
        push_s: with `uri`, seconds between two pushes of what a running step has made.
        grace_s: with `uri`, seconds that a pod which is stopped has to push the rest.
        scratch: with `uri`, most that a pod may hold of it on its node.
        path: where pods see it. The store is the directory `directory` below.
    """

    claim: str = ""
    host_path: str = ""
    uri: str = Field("", pattern=r"^([a-z0-9+.-]+://\S+)?$")
    options: Mapping[str, Any] = Field(default_factory=dict)
    push_s: float = Field(30.0, gt=0)
    grace_s: int = Field(120, ge=30)
    scratch: Quantity | None = None
    path: str = "/store"
    directory: str = "runs"

    @model_validator(mode="after")
    def _check(self) -> Self:
        if sum(map(bool, (self.claim, self.host_path, self.uri))) != 1:
            raise ValueError(
                "give one of claim (a PersistentVolumeClaim), host_path (a directory of the node) "
                "and uri (an object store)"
            )
        if given := sorted(secret_names(self.options)):
            raise ValueError(f"options has {given[0]}: {_FROM_SECRETS}")
        if has_password(self.uri):
            raise ValueError(f"uri has a user before its bucket (not shown): {_FROM_SECRETS}")
        return self

    @property
    def place(self) -> str:
        """Which store it is, for people; equal for two profiles that share one."""
        where = self.uri or (f"claim {self.claim}" if self.claim else f"hostPath {self.host_path}")
        return f"{where}, at {self.root}"

    @property
    def root(self) -> str:
        """The store's directory, as pods see it."""
        return f"{self.path}/{self.directory}".rstrip("/")


class Tracking(Config):
    """MLflow and the UI: `uri` as pods reach it; `url` and `argo_url` as people do, for links."""

    uri: str = ""
    url: str = ""
    argo_url: str = ""

    @model_validator(mode="after")
    def _check(self) -> Self:
        for name in Tracking.model_fields:
            if has_password(getattr(self, name)):
                raise ValueError(f"{name} has a user and password (not shown): {_FROM_SECRETS}")
        return self
