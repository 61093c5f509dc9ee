"""A cluster profile as typed YAML, found by name (those that Argosy ships) or as a file of one's own; its settings of
tracking, retries and nights (settings.py has those that pods are made of)."""

import os
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field

from argosy.core.config.explain import likely, nearest
from argosy.core.config.load import load
from argosy.core.config.schema import Config
from argosy.core.errors import InputError
from workflows.argo.profile import settings
from workflows.argo.profile.events import Event, Key
from workflows.argo.profile.queues import NoQueue

_SMALL = "small letters, digits and -"
Name = Annotated[str, Field(pattern=r"^[a-z0-9]([a-z0-9.-]*[a-z0-9])?$", max_length=63, examples=["my-team.gpu"])]
Label = Annotated[str, Field(pattern=r"^[a-z0-9]([a-z0-9-]*[a-z0-9])?$", max_length=63, title=_SMALL, examples=["ml"])]
EventName = Annotated[str, Field(pattern=r"^[a-z]([a-z0-9-]*[a-z0-9])?$", max_length=40, title=_SMALL,
                                 examples=["new-data"])]
SHIPPED = Path(__file__).parent / "profiles"
FOLDER = "ARGOSY_PROFILES"  # further profiles: in pods, the ConfigMap of the one that the workflow was given
TEMPLATE_STORE = "ARGOSY_TEMPLATE_STORE"  # the plan's pod is told for which store its template was made


class Tracking(Config):
    """MLflow and the UI: `uri` as pods reach it; `url` and `argo_url` as people do, for links."""

    uri: str = ""
    url: str = ""
    argo_url: str = ""

    def check_fields(self) -> None:
        for name in Tracking.model_fields:
            if settings.has_password(getattr(self, name)):
                raise ValueError(f"{name} has a user and password (not shown): {settings.FROM_SECRETS}")


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
    webhook_secret: Key | Literal[""] = ""
    """SECRET/KEY that holds the URL which is told of regressions."""
    late_s: int = Field(4 * 3600, ge=0)
    """A missed start is made up for within so many seconds."""
    suspend: bool = False


class Profile(Config):
    """Everything about a cluster that the graph does not know."""

    name: Name = "default"
    namespace: Label = "argosy"
    cluster: str = ""
    """Its name, where several clusters share the store."""
    service_account: Name = "argosy-step"
    executor_account: Name = "argosy-executor"
    storage: settings.Storage
    images: settings.Images = settings.Images()
    defaults: settings.Placement = settings.Placement()
    stages: Mapping[str, settings.Placement] = Field(default_factory=dict)
    cpu_share: float = Field(0.7, gt=0, le=1)
    """Share of a stage's cores that its pod asks for. It may use more, having no limit; what is left is for the
    services of the node and Argo's own containers."""
    user: int = Field(1000, ge=1)
    """Uid and gid of all containers; never root."""
    retry: Retry = Retry()
    keep: Keep = Keep()
    tracking: Tracking = Tracking()
    nightly: Nightly = Nightly()
    nodes: settings.Nodes | None = None
    """Pods of stages on several nodes, as JobSets, which the cluster must have; null: such a stage is refused."""
    spot: settings.Placement | None = None
    """Settings of stages with `resources.STAGE.spot`, on top of their own; null: such a stage is refused."""
    bad_nodes: settings.BadNodes = settings.BadNodes()
    serving: settings.Serving | None = None
    """A Deployment that serves what an alias of the registry names; null: none."""
    events: Mapping[EventName, Event] = Field(default_factory=dict)
    """Events that submit workflows, by name, which Argo Events must be there for."""
    artifacts: bool = False
    """The report also as Argo artifact; needs an artifact repository."""
    parallelism: int = Field(10, ge=1)
    """Pods of one workflow at a time."""
    batches: int = Field(100, ge=1, le=1000)
    """Pods that the parts of one task are dealt to, at most."""
    priorities: tuple[str, ...] = ()
    """PriorityClasses to choose from at submission."""
    deadline_s: int | None = Field(None, ge=1)
    """Seconds that a whole workflow may take."""
    plan_deadline_s: int = Field(1800, ge=1)
    """Seconds that its first pod may take, whose image may be missing."""
    scheduler: str | None = None

    def check_fields(self) -> None:
        if self.storage.uri and not self.tracking.uri:
            raise ValueError("tracking.uri is empty, which means an SQLite file in the store: give an MLflow server's "
                             "URI, since storage.uri is an object store, where no SQLite can be")
        if self.watches_store and self.storage.uri:
            raise ValueError("events with checkpoint or alias watch files of the store, and storage.uri is an object "
                             "store: take an event of its bucket, such as {prefix: runs/sft-, suffix: /outputs.json}")
        for name, event in self.events.items():
            if event.folder and not f"{event.folder.path}/".startswith(f"{self.storage.mount_path}/"):
                raise ValueError(f"events.{name}.folder.path is {event.folder.path}, which no pod has: give a folder "
                                 f"below {self.storage.mount_path}, where the store's volume is")
            if wrong := next((each for each in event.checkpoint if each not in stage_names()), ""):
                raise ValueError(f"events.{name}.checkpoint has {wrong!r}, which is no stage; "
                                 f"{likely(wrong, stage_names())}")
        placed = {"defaults": self.defaults, **{f"stages.{name}": each for name, each in self.stages.items()}}
        queued = next((name for name, each in placed.items() if each.queued), "")
        if queued and not (self.nodes and self.nodes.queue):
            raise ValueError(f"{queued}.queued is true, and the profile has no nodes.queue: set it, such as nodes: "
                             "{queue: training}, or leave queued out")
        known = stage_names() if self.stages else ()  # a pod of a step needs the graph for nothing else
        for stage in self.stages:
            if stage not in known:
                raise ValueError(f"stages has {stage!r}, which is no stage; {likely(stage, known)}")

    @property
    def queue(self) -> NoQueue:
        """Return the queue of the pods of stages on several nodes, and of those that are `queued`."""
        return self.nodes.queue if self.nodes and self.nodes.queue else NoQueue()

    @property
    def watches_store(self) -> bool:
        """Whether an event is something that happens in the store."""
        return any(event.checkpoint or event.alias for event in self.events.values())

    def of_stage(self, stage: str, *, spot: bool = False) -> settings.Placement:
        """Place a stage: its own settings on top of the defaults, and those of `spot`; lists and maps are joined.
        Raises InputError: the profile has no `spot`."""
        if spot and self.spot is None:
            raise InputError(f"resources.{stage}.spot is true, and the profile {self.name!r} has no `spot`: say there "
                             "where such machines are, such as spot: {node_selector: {LABEL: VALUE}}, or leave it out")
        placed = _joined(self.defaults, self.stages.get(stage, settings.Placement()))
        return _joined(placed, self.spot) if spot and self.spot else placed


def _joined(placed: settings.Placement, own: settings.Placement) -> settings.Placement:
    values = dict[str, Any]()
    for name in own.model_fields_set:
        below, above = getattr(placed, name), getattr(own, name)
        together = (*below, *above) if isinstance(below, tuple) else above
        values[name] = {**below, **above} if isinstance(below, Mapping) else together
    return placed.model_copy(update=values)


@lru_cache(maxsize=1)
def stage_names() -> tuple[str, ...]:
    """List the stages whose pods a profile may place: the graph's, a night's judge, the end of a sweep, `serve`."""
    from workflows.compose import every_stage

    return (*dict.fromkeys(node.name for node in every_stage()), "judge", "sweep", "serve")


def placement_stage(name: str, step: str) -> str:
    """Name the stage whose settings the pods of a node take: its own; for an item of `posttraining`, whose name no
    profile knows, that of its step, or of one with the same needs."""
    return name if name in stage_names() else {"preference": "dpo", "synthesize": "rlhf"}.get(step, step)


def config_map(profile: str) -> str:
    """Name the ConfigMap that holds a profile in the cluster: one each, so that they live side by side."""
    return f"argosy-profile-{profile}"


def profile_names() -> list[str]:
    """Name all profiles that `load_profile` finds without a path."""
    return sorted({path.stem for folder in _folders() for path in folder.glob("*.yaml")})


def load_profile(name: str) -> Profile:
    """Load the profile `name`, or of the YAML file `name`; its name is the file's unless it says another. Raises
    InputError: there is none, or it is wrong."""
    is_path = name.endswith((".yaml", ".yml"))
    found = [Path(name)] if is_path else [folder / f"{name}.yaml" for folder in _folders()]
    path = next((each for each in found if each.is_file()), None)
    if path is None and is_path:
        raise InputError(f"profile {name}: there is no such file")
    if path is None:
        known = profile_names()
        near = nearest(name, known)
        raise InputError(f"profile is {name!r}, allowed: {', '.join(known)}, or the path of a YAML file"
                         + (f"; nearest: {near[0]}" if near else ""))
    return load(Profile, [{"name": path.stem}, path])


def _folders() -> list[Path]:
    own = os.environ.get(FOLDER)
    return [*([Path(own)] if own else []), SHIPPED]


def check_store(profile: Profile, there: str) -> None:
    """Raise InputError where the pods' volumes, of the installed template, are not the profile's store."""
    if there != profile.storage.description:
        raise InputError(f"profile is {profile.name!r}, whose store is {profile.storage.description}, but the "
                         f"WorkflowTemplate was made for {there}: name a profile of that store, or install the "
                         f"manifests of {profile.name!r}")
