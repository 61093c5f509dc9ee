"""Makes a stage's nodes: with the run's seed and the stage's share of the machine."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pydantic import Field

from argosy.config import Config
from workflows.node import Node, Resources


class StageResources(Config):
    """What one process of a stage may use, for scheduling: it changes no result.

    Attributes:
        cores: by default as many as the stage's `threads`, where its config has that field, else 1.
        memory_gb: 10^9 bytes.
    """

    cores: int | None = Field(None, ge=1)
    memory_gb: float = Field(1.0, gt=0)


class Stages:
    """Collects nodes.

    Args:
        seed: for configs that have a field `seed` and were not given one.
        resources: by stage; one that is not named gets the defaults of StageResources.
    """

    def __init__(self, seed: int, resources: Mapping[str, StageResources]) -> None:
        self.nodes: list[Node] = []
        self._seed, self._resources = seed, resources

    def __call__(
        self, name: str, step: str, config: Config, *, part: str = "", batch: int = 1, **inputs: Node | Sequence[Node]
    ) -> Node:
        """Add the node `name` of `steps/<step>.py`; `inputs` are its config's upstream fields."""
        given = self._resources.get(name, StageResources())
        if "seed" in type(config).model_fields and "seed" not in config.model_fields_set:
            config = config.model_copy(update={"seed": self._seed})
        cores = given.cores if given.cores is not None else int(getattr(config, "threads", 1))
        resources = Resources(cores, given.memory_gb)
        node = Node(name, step, config, inputs=inputs, part=part, resources=resources, batch=batch)
        self.nodes.append(node)
        return node
