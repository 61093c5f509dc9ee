"""A cluster profile: where pods run, in which images, on which store, with which devices. Typed YAML."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Annotated, Any, Literal, Self

from pydantic import Field, model_validator

from argosy.config import Config
from argosy.config_explain import nearest
from workflows.argo.credentials import has_password, secret_names

Name = Annotated[str, Field(pattern=r"^[a-z0-9]([a-z0-9.-]*[a-z0-9])?$", max_length=63)]
Quantity = Annotated[str, Field(pattern=r"^[0-9]+(\.[0-9]+)?(m|k|M|G|T|Ki|Mi|Gi|Ti)?$")]
Label = Annotated[str, Field(pattern=r"^[a-z0-9]([a-z0-9-]*[a-z0-9])?$", max_length=63)]  # a namespace has no dot
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


class Retry(Config):
    """When a step is started again, and how often.

    Attributes:
        failures: times that a step may fail by itself (exit code 1) before its node fails.
        out_of_memory: times that it gets more memory after having run out of it.
        memory_factor: how much more each time.
        interruptions: lost nodes, evictions, deleted pods: no fault of the step, so many times at most.
        pause_s: before the first retry; doubles up to `longest_pause_s`.
    """

    failures: int = Field(2, ge=0)
    out_of_memory: int = Field(3, ge=0)
    memory_factor: float = Field(1.5, gt=1)
    interruptions: int = Field(50, ge=0)
    pause_s: int = Field(10, ge=0)
    longest_pause_s: int = Field(300, ge=1)


class Keep(Config):
    """How long what is over stays: workflows (seconds), and whether their record and logs are archived."""

    success_s: int = Field(7 * 86400, ge=0)
    failure_s: int = Field(14 * 86400, ge=0)
    pods: Literal["OnPodCompletion", "OnPodSuccess", "OnWorkflowCompletion", "OnWorkflowSuccess"] = "OnPodSuccess"
    archive_logs: bool = False


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


class Nightly(Config):
    """When the nightly evaluation starts (cron, in `timezone`), and what it holds checkpoints against."""

    schedule: str = "0 2 * * *"
    timezone: str = "UTC"
    alias: str = Field("reference", description="of the registry: the checkpoint that new ones are compared with")
    model: str = Field("", description="registered model; default: the model line's name")
    webhook_secret: str = Field(
        "", pattern=r"^([a-z0-9.-]+/[A-Za-z0-9._-]+)?$",
        description="SECRET/KEY that holds the URL which is told of regressions",
    )
    late_s: int = Field(4 * 3600, ge=0, description="a missed start is made up for within so many seconds")
    suspend: bool = False


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
                near = nearest(stage, known) or known
                raise ValueError(f"stages has {stage!r}, which is no stage; nearest: {', '.join(near)}")
        return self

    def of_stage(self, stage: str) -> Placement:
        """The defaults, with what the stage sets itself on top; lists and maps are joined."""
        return _joined(self.defaults, self.stages.get(stage, Placement()))


@lru_cache(maxsize=1)
def stage_names() -> tuple[str, ...]:
    """Stages whose pods a profile may place: those of the graph, and what judges a night."""
    from workflows.lifecycle import LifecycleConfig, lifecycle

    return (*dict.fromkeys(node.name for node in lifecycle(LifecycleConfig())), "judge")


def _joined(base: Placement, own: Placement) -> Placement:
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
