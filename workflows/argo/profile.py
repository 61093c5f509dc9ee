"""A cluster profile: where pods run, in which images, on which store, with which devices. Typed YAML."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Annotated, Self

from pydantic import Field, model_validator

from argosy.config import Config
from argosy.config_explain import likely
from workflows.argo.profile_placement import Images, Placement, joined
from workflows.argo.profile_settings import Keep, Nightly, Retry
from workflows.argo.profile_storage import Storage, Tracking

Name = Annotated[str, Field(pattern=r"^[a-z0-9]([a-z0-9.-]*[a-z0-9])?$", max_length=63)]
Label = Annotated[str, Field(pattern=r"^[a-z0-9]([a-z0-9-]*[a-z0-9])?$", max_length=63)]  # a namespace has no dot


class Profile(Config):
    """Everything about a cluster that the graph does not know."""

    name: Name = "default"
    namespace: Label = "argosy"
    cluster: str = Field("", description="its name, where several clusters share the store")
    service_account: Name = "argosy-step"
    executor_account: Name = "argosy-executor"
    storage: Storage
    images: Images = Images()
    defaults: Placement = Placement()
    stages: Mapping[str, Placement] = Field(default_factory=dict)
    user: int = Field(1000, ge=1, description="uid and gid of all containers; never root")
    retry: Retry = Retry()
    keep: Keep = Keep()
    tracking: Tracking = Tracking()
    nightly: Nightly = Nightly()
    artifacts: bool = Field(False, description="the report also as Argo artifact; needs an artifact repository")
    parallelism: int = Field(10, ge=1, description="pods of one workflow at a time")
    batches: int = Field(100, ge=1, le=1000, description="pods that the parts of one task are dealt to, at most")
    priorities: tuple[str, ...] = Field((), description="PriorityClasses to choose from at submission")
    deadline_s: int | None = Field(None, ge=1, description="of a whole workflow")
    plan_deadline_s: int = Field(1800, ge=1, description="of its first pod, whose image may not be there")
    scheduler: str | None = None
    presets: tuple[str, ...] = Field((), description="presets that the form offers; default: all")

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.storage.uri and not self.tracking.uri:
            raise ValueError(
                "tracking.uri is empty, which means an SQLite file in the store: give an MLflow server's URI, since "
                "storage.uri is an object store, where no SQLite can be"
            )
        known = stage_names()
        for stage in self.stages:
            if stage not in known:
                raise ValueError(f"stages has {stage!r}, which is no stage; {likely(stage, known)}")
        return self

    def of_stage(self, stage: str) -> Placement:
        """The defaults, with what the stage sets itself on top; lists and maps are joined."""
        return joined(self.defaults, self.stages.get(stage, Placement()))


@lru_cache(maxsize=1)
def stage_names() -> tuple[str, ...]:
    """Stages whose pods a profile may place: those of the graph, and what judges a night."""
    from workflows.lifecycle import LifecycleConfig, lifecycle

    return (*dict.fromkeys(node.name for node in lifecycle(LifecycleConfig())), "judge")
