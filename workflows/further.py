"""Stages without a line on the pipeline's page: their steps say after which stages they come."""

from functools import cache
from graphlib import TopologicalSorter
from typing import TYPE_CHECKING, Any

from pydantic import create_model

from argosy.core.config.explain import likely
from argosy.core.config.schema import Config
from argosy.core.errors import InputError
from argosy.core.step.contract import Step
from workflows.graph import Node, definitions
from workflows.stages import Stages


@cache
def further_steps() -> dict[str, Step[Any]]:
    """Return the steps with an `after`, each after those of them that it names."""
    found = {name: step for name, step in definitions().items() if step.after}
    order = TopologicalSorter({name: {*step.after.values()} & found.keys() for name, step in found.items()})
    return {name: found[name] for name in order.static_order()}


def further_fields() -> dict[str, Any]:
    """Return the fields of the pipeline's config that these stages have: their step's config, or null."""
    return {name: (step.config | None, step.config()) for name, step in further_steps().items()}


if TYPE_CHECKING:

    class Further(Config):
        """Base of the pipeline's config, with their fields."""
else:
    Further = create_model("Further", __base__=Config, **further_fields())


def add_further(stage: Stages, config: Config) -> list[Node]:
    """Add a node for each of these stages; one that lacks a stage before it is left out. Returns them.

    Raises InputError: `stages` names one that lacks what it comes after, or no stage is called so."""
    return [node for name, step in further_steps().items() if (node := _add(stage, name, step, config))]


def _add(stage: Stages, name: str, step: Step[Any], config: Config) -> Node | None:
    inputs: dict[str, Any] = {}
    for field, before in step.after.items():
        if before not in stage.named:
            raise InputError(f"steps/{name}.py: after has {before!r}; {likely(before, stage.named)}")
        nodes = [node for node in stage.nodes if node.name == before]
        inputs[field] = nodes if step.config.model_fields[field].annotation is not str else next(iter(nodes), None)
    lacking = next((step.after[field] for field, nodes in inputs.items() if not nodes), "")
    if lacking and name in getattr(config, "stages", ()):
        raise InputError(f"stage {name} needs {lacking}: add {lacking} to stages")
    return stage(name, name, None if lacking else getattr(config, name), **inputs)
