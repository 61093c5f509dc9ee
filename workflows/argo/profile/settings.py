"""The parts of a cluster profile that pods are made of: images, devices, places, the store and its cache;
quantities of Kubernetes, and keys that are called as credentials are."""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

from pydantic import Field

from argosy.core.config.schema import Config
from argosy.core.errors import InputError
from argosy.core.step.machine import COMPILER
from workflows.argo.profile.events import Key
from workflows.argo.profile.queues import Queue

Absolute = Annotated[str, Field(pattern=r"^/[^\s:]*$", title="an absolute path", examples=["/store"])]
FABRICS: Mapping[str, Mapping[str, str]] = {
    "": {}, "infiniband": {"NCCL_NET": "IB"}, "roce": {"NCCL_NET": "IB"}, "none": {"NCCL_NET": "Socket"},
    "efa": {"NCCL_NET": "AWS Libfabric", "FI_PROVIDER": "efa"}
}  # RoCE v2's GID is found by NCCL since 2.21
_RDMA = {"infiniband": "rdma/hca", "roce": "rdma/hca", "efa": "vpc.amazonaws.com/efa"}
_UNITS = {"": 1, "n": 1e-9, "u": 1e-6, "m": 1e-3, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "P": 1e15, "E": 1e18,
          "Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "Ti": 2**40, "Pi": 2**50, "Ei": 2**60}  # fmt: skip
_QUANTITY = re.compile(r"([+-]?[0-9.]+(?:[eE][+-]?[0-9]+)?)([numkKMGTPE]?i?)")

_WORDS = {"secret", "password", "passwd", "token", "credential", "credentials", "sas"}
_PAIRS = ("access_key", "account_key", "api_key", "private_key", "connection_string")
_FILES = ("_file", "_path", "_dir")  # where they are, not they themselves
Quantity = Annotated[str, Field(pattern=r"^[0-9]+(\.[0-9]+)?(m|k|M|G|T|Ki|Mi|Gi|Ti)?$", examples=["500m", "16Gi"])]
FROM_SECRETS = ("credentials come from a Secret that defaults.secrets names, as environment variables "
                "(AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_ENDPOINT_URL, MLFLOW_TRACKING_USERNAME, ...)")


def secret_names(given: Any, at: str = "") -> Iterator[str]:
    """Yield paths of keys, at any depth, named as credentials are; empty and boolean values hold none."""
    if isinstance(given, Mapping):
        for key, value in given.items():
            path = f"{at}.{key}" if at else str(key)
            if isinstance(value, (Mapping, list, tuple)):
                yield from secret_names(value, path)
                continue
            name = re.sub(r"[^a-z0-9]+", "_", str(key).lower())
            named = name == "key" or not _WORDS.isdisjoint(name.split("_")) or any(pair in name for pair in _PAIRS)
            if value not in (None, "") and not isinstance(value, bool) and named and not name.endswith(_FILES):
                yield path
    elif isinstance(given, Sequence) and not isinstance(given, str):
        for number, value in enumerate(given):
            yield from secret_names(value, f"{at}[{number}]")


def has_password(uri: str) -> bool:
    """Tell whether a URI names a user: s3://KEY:SECRET@bucket, https://user:password@host."""
    return "@" in urlsplit(uri).netloc


def amount(quantity: str) -> float:
    """Convert a Kubernetes quantity into cores, bytes or a count. Raises InputError: it is none."""
    found = _QUANTITY.fullmatch(quantity)
    if found is None or found[2] not in _UNITS:
        raise InputError(f"{quantity!r} is not a quantity of Kubernetes, such as 500m, 2, 512Mi or 1.5G")
    return float(found[1]) * _UNITS[found[2]]


class Images(Config):
    """Image by what a step needs: `data` is light, `train` has torch. With `tag`, a workflow's tag replaces it."""

    data: str = "argosy-data"
    train: str = "argosy-train"
    form: Literal["full", "slim", "cpu", "vllm", "own"] = "full"
    """Build of `train` in docs/install.md: cpu is also that for AMD and Ascend; own: what it holds is not checked."""
    tag: str = "latest"
    pull_policy: Literal["Always", "IfNotPresent", "Never"] = "IfNotPresent"
    pull_secrets: tuple[str, ...] = ()

    def of(self, needs: str, tag: str = "") -> str:
        """Choose the image of a step; one that is given by digest (@sha256:...) keeps it."""
        image: str = getattr(self, needs)
        return image if "@" in image else f"{image}:{tag or self.tag}"


_FULL = {COMPILER, "bitsandbytes", "gguf", "libaio", "tensorboard", "torchao"}
FORMS: Mapping[str, set[str]] = {"full": _FULL, "slim": set(), "cpu": {COMPILER, "gguf", "libaio"},
                                 "vllm": {*_FULL, "vllm"}}  # what each holds of what fields of steps need


class Devices(Config):
    """Accelerators of a pod and what they need."""

    gpus: int = Field(0, ge=0)
    """Number of `resource` devices."""
    resource: str = "nvidia.com/gpu"
    rdma: Mapping[str, int] = Field(default_factory=dict)
    """Devices by resource name, such as rdma/hca: 1; adds IPC_LOCK."""
    shm: Quantity | None = None
    """Size of /dev/shm, which NCCL and data loaders use."""
    fabric: Literal["", "infiniband", "roce", "efa", "none"] = ""
    """Network between the pods of a stage: NCCL and RCCL use it or fail, instead of a slower one without a word; empty:
    they choose. `efa` needs the plugin aws-ofi-nccl in the image; `none` is TCP."""
    host_network: bool = False
    """The node's own network, where its cards are not given to pods; needs the component host-network."""
    numa: bool = False
    """Whole cores that no other pod has (requests equal to limits), which the kubelet's CPU and topology managers put
    on the NUMA node of the GPUs and network cards."""

    def check_fields(self) -> None:
        if self.fabric in _RDMA and not (self.rdma or self.host_network):
            raise ValueError(f"fabric is {self.fabric}, and pods get no card of it: name its devices, such as "
                             f"rdma: {{{_RDMA[self.fabric]}: 1}}, or set host_network: true")
        if self.fabric and self.resource.startswith("huawei.com/"):
            raise ValueError(f"fabric is {self.fabric}, which sets variables of NCCL, and Ascend's devices speak by "
                             "HCCL: leave it out, and give env what HCCL needs")
        if "/mig-" in self.resource and self.gpus > 1:
            raise ValueError(f"gpus is {self.gpus}, allowed: 1 of {self.resource}, as CUDA shows a process one slice")


class Nodes(Config):
    """The pods of a stage on several nodes, as a JobSet beside the stage's own pod."""

    kind: Literal["JobSet", "TrainJob"] = "JobSet"
    """TrainJob: of Kubeflow Trainer 2, which makes the JobSet, with a TrainingRuntime of its own."""
    queue: Queue = None
    """Queue that admits all pods of a stage or none: the name of a LocalQueue of Kueue, or a mapping with its `kind`,
    such as {kind: Volcano, name: training}; null: none."""
    labels: Mapping[str, str] = Field(default_factory=dict)
    """Labels of the JobSet and its pods."""
    annotations: Mapping[str, str] = Field(default_factory=dict)
    """Annotations, such as those of a second network."""
    near: tuple[str, ...] = ()
    """Labels of nodes, such as topology.kubernetes.io/zone and one of the rack: pods of a stage prefer nodes of equal
    values, of the last label most."""


class BadNodes(Config):
    """Nodes that failed, which pods keep away from while their record in the store is fresh."""

    fresh_s: int = Field(86400, ge=0)
    """Seconds that a record counts; 0: no node is kept away from."""
    most: int | None = Field(None, ge=0)
    """Nodes that are kept away from at most, those that failed last, so that others are left; null: 1, or none where
    the store is a directory of the one node."""


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
    slot: str = Field("", pattern=r"^([a-z0-9.-]+/[A-Za-z0-9._-]+)?$", title="CONFIGMAP/KEY",
                      examples=["argosy-slots/gpu"])
    """CONFIGMAP/KEY of a semaphore."""
    queued: bool = False
    """Whether the pods wait in `nodes.queue`, as those of a stage on several nodes always do."""

    def check_fields(self) -> None:
        if given := sorted(secret_names(self.env)):
            raise ValueError(f"env has {given[0]}: credentials come from a Secret that secrets names")


class Serving(Config):
    """The Deployment that serves what an alias of the registry names; `stages.serve` places its pods."""

    model: str = Field(pattern=r"^[^/:@]+$", title="a registered model", examples=["demo"])
    """Registered model; requests name it too."""
    alias: str = Field("reference", pattern=r"^[A-Za-z0-9._-]+$", examples=["reference"])
    keys: Key = "argosy-serve/keys"
    """SECRET/KEY with the keys of requests: NAME KEY, a line each."""
    replicas: int = Field(2, ge=1)
    """Pods, with `most` at least so many."""
    most: int | None = Field(None, ge=1)
    """Pods at most, more of them while answers wait; needs argosy_waiting as a metric of pods. Null: no autoscaling."""
    waiting: int = Field(4, ge=1)
    """Answers that may wait for each pod before there are more."""
    drain_s: int = Field(120, ge=0)
    """Seconds that requests in flight have when their pod is replaced."""
    arguments: tuple[str, ...] = ()
    """More arguments of `argosy serve`, such as --engine=vllm."""

    def check_fields(self) -> None:
        if self.most is not None and self.most < self.replicas:
            raise ValueError(f"most is {self.most}, allowed: {self.replicas} (replicas) or more")
        if self.most and any(engine in argument for argument in self.arguments for engine in ("vllm", "sglang")):
            raise ValueError("most needs argosy_waiting, which only the engine argosy reports: leave most out, and "
                             "scale by the metrics of the other engine")


class Cache(Config):
    """A cache on each node, which its pods share: what one has fetched from the bucket, others read there."""

    host_path: Absolute
    """A directory of each node that belongs to the profile's `user`."""
    size: Quantity
    """Most that it holds of each node; files that no pod has used for the longest go first."""
    path: Absolute = "/cache"
    """Mount point in pods."""


class Storage(Config):
    """The store: where steps' directories are. One of `claim`, `host_path` and `uri`."""

    claim: str = ""
    """A PersistentVolumeClaim that many pods can write (ReadWriteMany, with flock: NFS 4, CephFS, JuiceFS)."""
    host_path: str = ""
    """A directory of the node, for clusters of one node."""
    uri: str = Field("", pattern=r"^([a-z0-9+.-]+://\S+)?$", examples=["s3://bucket/prefix"])
    """An object store, as fsspec names it: s3://bucket/prefix, gs://..., az://...; it is the store itself."""
    options: Mapping[str, Any] = Field(default_factory=dict)
    """Options of that file system, such as {endpoint_url: "http://minio:9000"}; never credentials."""
    push_s: float = Field(30.0, gt=0)
    """Seconds between two pushes of a running step's files, with `uri`."""
    grace_s: int = Field(120, ge=30)
    """Seconds that a stopped pod has: half of them for its step, which may save a state; then it pushes, with `uri`."""
    scratch: Quantity | None = None
    """Limit of what a pod holds of the store on its node, with `uri`."""
    path: str = "/store"
    """Mount point in pods. The store is the directory `directory` below."""
    directory: str = "runs"
    cache: Cache | None = None
    """Cache on each node, with `uri`: later pods there read what one has fetched."""

    def check_fields(self) -> None:
        if sum(map(bool, (self.claim, self.host_path, self.uri))) != 1:
            raise ValueError("give one of claim (a PersistentVolumeClaim), host_path (a directory of the node) and "
                             "uri (an object store)")
        if given := sorted(secret_names(self.options)):
            raise ValueError(f"options has {given[0]}: {FROM_SECRETS}")
        if has_password(self.uri):
            raise ValueError(f"uri has a user before its bucket (not shown): {FROM_SECRETS}")
        if self.cache and not self.uri:
            raise ValueError("cache is for a store in an object store, and uri is empty: pods read a claim or a "
                             "host_path as it is; leave cache out, or give uri")

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
