"""Queues that admit all pods of a stage or none, of Kueue or Volcano: what each reads of manifests, and what a cluster
must have for it. All that differs between the two is here."""

from collections.abc import Iterator, Mapping
from typing import Annotated, Any, ClassVar, Literal

from pydantic import BeforeValidator, Field

from argosy.core.config.schema import Config

_KUEUE, _VOLCANO = "kueue.x-k8s.io", "scheduling.volcano.sh"
_Name = Annotated[str, Field(pattern=r"^[a-z0-9]([a-z0-9.-]*[a-z0-9])?$", max_length=63, examples=["training"])]
_Label = Annotated[str, Field(pattern=r"^([a-z0-9.-]+/)?[A-Za-z0-9]([A-Za-z0-9_.-]*[A-Za-z0-9])?$",
                              title="a label of nodes", examples=["example.com/rack"])]
Need = tuple[str, str, str]  # what a cluster must have, its path in the API server or an image, what to do without it


class NoQueue(Config):
    """No queue: Kubernetes' own scheduler places each pod by itself. The base of those that there are."""

    scheduler: ClassVar[str] = ""
    """Scheduler of the pods; empty: the profile's."""

    @property
    def labels(self) -> Mapping[str, str]:
        """Return the labels of what is admitted: a JobSet, a TrainJob, or a pod that is alone."""
        return {}

    def annotations(self, nodes: int) -> Mapping[str, str]:
        """Return the annotations of each pod of a stage."""
        return {}

    def of_job(self, nodes: int) -> Mapping[str, str]:
        """Return the annotations of the Job that makes the pods of a stage."""
        return {}

    def needs(self, namespace: str) -> Iterator[Need]:
        """Yield what a cluster must have."""
        yield from ()


class Topology(Config):
    """The nodes of one stage, by a label that is a level of Kueue's Topology. One of `required` and `preferred`."""

    required: _Label | None = None
    """All pods are on nodes of one value of this label, or none is admitted."""
    preferred: _Label | None = None
    """So they are where it is possible, else at the level above, else anywhere."""

    def check_fields(self) -> None:
        if (self.required is None) == (self.preferred is None):
            raise ValueError("give one of required and preferred, such as topology: {required: example.com/rack}")


class Kueue(NoQueue):
    """A LocalQueue of Kueue, which holds JobSets, TrainJobs and pods until there is quota, and may preempt them."""

    kind: Literal["Kueue"] = "Kueue"
    name: _Name
    """LocalQueue in the profile's namespace."""
    topology: Topology | None = None
    """Nodes of one stage; needs ResourceFlavors that name a Topology."""

    @property
    def labels(self) -> Mapping[str, str]:
        return {f"{_KUEUE}/queue-name": self.name}

    def annotations(self, nodes: int) -> Mapping[str, str]:
        given = self.topology.model_dump(exclude_none=True) if self.topology and nodes > 1 else {}
        return {f"{_KUEUE}/podset-{how}-topology": label for how, label in given.items()}

    def needs(self, namespace: str) -> Iterator[Need]:
        yield (f"LocalQueue {self.name} of Kueue", f"/apis/{_KUEUE}/v1beta1/namespaces/{namespace}/localqueues/"
               f"{self.name}", "make it, or leave nodes.queue out of the profile: a JobSet would not be admitted")


class Volcano(NoQueue):
    """A Queue of Volcano, whose controller makes a PodGroup of each Job, and whose scheduler binds all pods or none."""

    kind: Literal["Volcano"]
    name: _Name = "default"
    """Queue, which all namespaces share."""
    scheduler: ClassVar[str] = "volcano"

    def annotations(self, nodes: int) -> Mapping[str, str]:
        return {f"{_VOLCANO}/queue-name": self.name}

    def of_job(self, nodes: int) -> Mapping[str, str]:
        return {f"{_VOLCANO}/group-min-member": str(nodes)}

    def needs(self, namespace: str) -> Iterator[Need]:
        without = "install Volcano 1.12 or later, or leave nodes.queue out of the profile: no pod would be scheduled"
        yield "API of Volcano", f"/apis/{_VOLCANO}/v1beta1", without
        yield (f"Queue {self.name} of Volcano", f"/apis/{_VOLCANO}/v1beta1/queues/{self.name}",
               "make it, or name another in nodes.queue of the profile")
        yield from ((f"deployment of Volcano's {name}", name, without) for name in ("vc-scheduler",
                                                                                    "vc-controller-manager"))


def _named(given: Any) -> Any:
    """Return a queue that is written by its name as one of Kueue; an empty name as none. Raises ValueError: there is no
    such kind, or it has no topology."""
    given = {"name": given} if isinstance(given, str) and given else given or None
    if not isinstance(given, Mapping):
        return given
    kind = given.get("kind", "Kueue")
    if kind not in ("Kueue", "Volcano"):
        raise ValueError(f"kind is {kind!r}, allowed: Kueue, Volcano")
    if kind == "Volcano" and "topology" in given:
        raise ValueError("kind is Volcano and topology is one of Kueue: leave it out, or give the network "
                         "topology of Volcano as annotations")
    return {"kind": kind, **given}


Queue = Annotated[Annotated[Kueue | Volcano, Field(discriminator="kind")] | None, BeforeValidator(_named)]
