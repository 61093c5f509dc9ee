"""Which checkpoints are evaluated with which suites: one node a checkpoint x suite."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Literal, Self

from pydantic import Field, model_validator

from argosy.errors import InputError
from argosy.training.config import TrainConfig
from steps.evaluate import EvaluateConfig
from workflows.node import Node
from workflows.stage_resources import Stages

SUITE_FOLDERS = tuple(Path(__file__).resolve().parents[1] / name for name in ("evals/suites", "probes/suites"))
FINAL = "final"


class Evaluation(EvaluateConfig):
    """The evaluate step's config for all checkpoints.

    Attributes:
        suites: by name of a suite, or path of a YAML of your own: `all` exports of each training stage, or its
            `final` one.
        together: checkpoints that one process evaluates one after the other, to start up once.
    """

    suites: Mapping[str, Literal["all", "final"]] = Field({"benchmark": "all", "probes": "all", "heldout": "final"})
    together: int = Field(8, ge=1)

    @model_validator(mode="after")
    def _check(self) -> Self:
        for name in ("suite", "suite_file", "export"):
            if getattr(self, name) != EvaluateConfig.model_fields[name].get_default():
                raise ValueError(f"{name} is set for each checkpoint by the pipeline; use suites: {{NAME: all}}")
        return self


def evaluations(stages: Stages, config: Evaluation, trained: Sequence[Node], **inputs: Node) -> list[Node]:
    """Add a node for each export of `trained` and each suite; returns them."""
    common = {name: getattr(config, name) for name in EvaluateConfig.model_fields if name in config.model_fields_set}
    found = []
    for name, which in sorted(config.suites.items()):
        suite = suite_fields(name)
        for node in trained:
            for export in exports(node) if which == "all" else [FINAL]:
                part = f"{node.name}-{export}-{suite['suite']}"
                each = EvaluateConfig.model_validate({**common, **suite, "export": export})
                found.append(
                    stages("evaluate", "evaluate", each, part=part, batch=config.together, checkpoint=node, **inputs)
                )
    return found


def exports(node: Node) -> Iterator[str]:
    """Names of the checkpoints that a training stage will leave, or left, the last one as `final`."""
    if node.finished:
        yield from node.finished.exports
        return
    if isinstance(node.config, TrainConfig):
        yield from list(node.config.export_steps())[:-1]
    yield FINAL


def suite_fields(name: str) -> dict[str, str]:
    """The suite as a file where there is one, so that its bytes count: a changed suite is evaluated again."""
    own = Path(name)
    shipped = [path for folder in SUITE_FOLDERS if (path := folder / f"{name}.yaml").is_file()]
    if not shipped and own.suffix not in (".yaml", ".yml"):
        known = sorted(path.stem for folder in SUITE_FOLDERS for path in folder.glob("*.yaml"))
        raise InputError(f"evaluate.suites has {name!r}; allowed: {', '.join(known)}, or the path of a YAML file")
    file = str(own) if own.suffix in (".yaml", ".yml") else str(shipped[0]) if shipped else ""
    return {"suite": own.stem, "suite_file": file}
