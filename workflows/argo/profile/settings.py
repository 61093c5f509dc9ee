"""The parts of a cluster profile: pods by stage, the store and data near the pods, retries, the nightly evaluation."""

from collections.abc import Mapping
from typing import Annotated, Any, Literal, Self

from pydantic import Field, model_validator

from argosy.core.config.schema import Config
from workflows.argo.profile.quantities import FROM_SECRETS, Quantity, amount, has_password, secret_names

MOUNT = "store"  # of a Dataset: the folder of its volume in which the store is
Absolute = Annotated[str, Field(pattern=r"^/[^\s:]*$")]


class Images(Config):
    """Image by what a step needs: `data` is light, `train` has torch. With `tag`, a workflow's tag replaces it."""

    data: str = "argosy-data"
    train: str = "argosy-train"
    tag: str = "latest"
    pull_policy: Literal["Always", "IfNotPresent", "Never"] = "IfNotPresent"
    pull_secrets: tuple[str, ...] = ()

    def of(self, needs: str, tag: str = "") -> str:
        """Choose the image of a step; one that is given by digest (@sha256:...) keeps it."""
        image: str = getattr(self, needs)
        return image if "@" in image else f"{image}:{tag or self.tag}"


class Devices(Config):
    """Accelerators of a pod and what they need."""

    gpus: int = Field(0, ge=0)
    """Number of `resource` devices."""
    resource: str = "nvidia.com/gpu"
    rdma: Mapping[str, int] = Field(default_factory=dict)
    """Devices by resource name, such as rdma/hca: 1; adds IPC_LOCK."""
    shm: Quantity | None = None
    """Size of /dev/shm, which NCCL and data loaders use."""


class Placement(Config):
    """The pods of a stage beside their cores and memory. Raw Kubernetes objects where the key is Kubernetes' own."""

    cpu: Quantity | None = None
    """Instead of the stage's cores."""
    memory: Quantity | None = None
    """Instead of the stage's memory_gb."""
    ephemeral_storage: Quantity | None = None
    devices: Devices = Devices()
    env: Mapping[str, str] = Field(default_factory=dict)
    secrets: tuple[str, ...] = ()
    """Secrets whose keys become environment variables."""
    node_selector: Mapping[str, str] = Field(default_factory=dict)
    tolerations: tuple[Mapping[str, Any], ...] = ()
    volumes: tuple[Mapping[str, Any], ...] = ()
    volume_mounts: tuple[Mapping[str, Any], ...] = ()
    runtime_class: str | None = None
    deadline_s: int | None = Field(None, ge=1)
    """Seconds after which a pod is ended as failed."""
    slot: str = Field("", pattern=r"^([a-z0-9.-]+/[A-Za-z0-9._-]+)?$")
    """CONFIGMAP/KEY of a semaphore."""

    @model_validator(mode="after")
    def _check(self) -> Self:
        if given := sorted(secret_names(self.env)):
            raise ValueError(f"env has {given[0]}: credentials come from a Secret that secrets names")
        return self


def joined(base: Placement, own: Placement) -> Placement:
    """Put `own` on top of `base`; lists and maps are joined."""
    values: dict[str, Any] = {}
    for name in own.model_fields_set:
        below, above = getattr(base, name), getattr(own, name)
        together = (*below, *above) if isinstance(below, tuple) else above
        values[name] = {**below, **above} if isinstance(below, Mapping) else together
    return base.model_copy(update=values)


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


class Storage(Config):
    """The store: where steps' directories are. One of `claim`, `host_path` and `uri`."""

    claim: str = ""
    """A PersistentVolumeClaim that many pods can write (ReadWriteMany, with flock: NFS 4, CephFS, JuiceFS)."""
    host_path: str = ""
    """A directory of the node, for clusters of one node."""
    uri: str = Field("", pattern=r"^([a-z0-9+.-]+://\S+)?$")
    """An object store, as fsspec names it: s3://bucket/prefix, gs://..., az://...; it is the store itself."""
    options: Mapping[str, Any] = Field(default_factory=dict)
    """Options of that file system, such as {endpoint_url: "http://minio:9000"}; never credentials."""
    push_s: float = Field(30.0, gt=0)
    """Seconds between two pushes of a running step's files, with `uri`."""
    grace_s: int = Field(120, ge=30)
    """Seconds that a stopped pod has to push the rest, with `uri`."""
    scratch: Quantity | None = None
    """Limit of what a pod holds of the store on its node, with `uri`."""
    path: str = "/store"
    """Mount point in pods. The store is the directory `directory` below."""
    directory: str = "runs"
    cache: Cache | None = None
    """Cache on each node, with `uri`: later pods there read what one has fetched."""
    fluid: Fluid | None = None
    """Cache of the cluster by Fluid, with `uri`, instead of `cache`."""

    @model_validator(mode="after")
    def _check(self) -> Self:
        if sum(map(bool, (self.claim, self.host_path, self.uri))) != 1:
            raise ValueError(
                "give one of claim (a PersistentVolumeClaim), host_path (a directory of the node) "
                "and uri (an object store)"
            )
        if given := sorted(secret_names(self.options)):
            raise ValueError(f"options has {given[0]}: {FROM_SECRETS}")
        if has_password(self.uri):
            raise ValueError(f"uri has a user before its bucket (not shown): {FROM_SECRETS}")
        if (self.cache or self.fluid) and not self.uri:
            name = "cache" if self.cache else "fluid"
            raise ValueError(f"{name} is for a store in an object store, and uri is empty: pods read a claim or a "
                             f"host_path as it is; leave {name} out, or give uri")
        if self.cache and self.fluid:
            raise ValueError("give cache (each node keeps what its pods fetch) or fluid (Fluid does), not both")
        if self.fluid and not self.uri.startswith("s3://"):
            raise ValueError(f"fluid reads s3:// alone here, and uri is {self.uri}: take cache, which reads any")
        return self

    @property
    def description(self) -> str:
        """Describe the store for people; equal for two profiles that share one."""
        where = self.uri or (f"claim {self.claim}" if self.claim else f"hostPath {self.host_path}")
        return f"{where}, at {self.root}"

    @property
    def node_directory(self) -> str:
        """Return the directory that pods mount with `host_path`: the store alone, not what lies beside it."""
        return f"{self.host_path}/{self.directory}".rstrip("/")

    @property
    def mount_path(self) -> str:
        """Return the volume's mount point in pods: `path`, or with `host_path` the store itself."""
        return self.root if self.host_path else self.path

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
                raise ValueError(f"{name} has a user and password (not shown): {FROM_SECRETS}")
        return self


class Retry(Config):
    """The conditions and number of a step's retries."""

    failures: int = Field(2, ge=0)
    """Times that a step may fail by itself (exit code 1) before its node fails."""
    out_of_memory: int = Field(3, ge=0)
    """Times that it gets more memory after having run out of it."""
    memory_factor: float = Field(1.5, gt=1)
    """Factor by which the memory grows each time."""
    interruptions: int = Field(50, ge=0)
    """Lost nodes, evictions, deleted pods: no fault of the step, so many times at most."""
    pause_s: int = Field(10, ge=0)
    """Before the first retry; doubles up to `longest_pause_s`."""
    longest_pause_s: int = Field(300, ge=1)
    elsewhere: bool = False
    """Keep a retry off every node where an attempt of it failed; for pools with more nodes than that may be."""


class Keep(Config):
    """Retention of finished workflows (seconds), and whether their record and logs are archived."""

    success_s: int = Field(7 * 86400, ge=0)
    failure_s: int = Field(14 * 86400, ge=0)
    pods: Literal["OnPodCompletion", "OnPodSuccess", "OnWorkflowCompletion", "OnWorkflowSuccess"] = "OnPodSuccess"
    archive_logs: bool = False


class Nightly(Config):
    """The hour of the nightly evaluation (cron, in `timezone`), and the reference of its checkpoints."""

    schedule: str = "0 2 * * *"
    timezone: str = "UTC"
    alias: str = Field("reference")
    """Registry alias of the checkpoint that new ones are compared with."""
    model: str = ""
    """Registered model; default: the model line's name."""
    webhook_secret: str = Field("", pattern=r"^([a-z0-9.-]+/[A-Za-z0-9._-]+)?$")
    """SECRET/KEY that holds the URL which is told of regressions."""
    late_s: int = Field(4 * 3600, ge=0)
    """A missed start is made up for within so many seconds."""
    suspend: bool = False
