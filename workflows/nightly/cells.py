"""Cells of checkpoint x suite: the nodes that the lifecycle would make, in the same directories."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from argosy.config import Config
from argosy.identity import Identities
from steps.evaluate import EvaluateConfig
from workflows.evaluation import Evaluation, evaluations
from workflows.graph import Graph
from workflows.lifecycle import LifecycleConfig
from workflows.nightly.found import FINAL, Found, Trained, ancestor
from workflows.node import Finished, Node
from workflows.plan import IDENTITIES, PlannedNode, planned
from workflows.stage_resources import Stages
from workflows.state import Store


@dataclass(frozen=True)
class Cell:
    """A checkpoint (its key) with one suite."""

    checkpoint: str
    suite: str
    node: PlannedNode


class Cells:
    """Makes cells of one store.

    Args:
        suites: instead of those of the config: `all` checkpoints of a step or its `final` one, by suite.
    """

    def __init__(self, found: Found, store: Path, suites: Mapping[str, str] | None = None) -> None:
        self._found, self._store, self._suites = found, store, suites
        self.identities = Identities(store / IDENTITIES if store.is_dir() else None)
        self._states = Store(str(store))
        self._known: dict[tuple[str, str, str], list[Cell]] = {}

    def of(self, trained: Trained, config: LifecycleConfig, *, asked: Trained | None = None) -> list[Cell]:
        """Every cell of a step's checkpoints.

        Args:
            config: of the model line: suites, their settings, the seed, resources.
            asked: whose questions (data) are asked, where those are not its own: a reference is asked what the new
                checkpoint was, and by its own tokenizer.
        """
        data = ancestor(self._found, (asked or trained).record, "data")
        tokens = ancestor(self._found, trained.record, "tokenize")
        if not trained.record["upstream"] and asked:  # a model from elsewhere has none of its own
            tokens = ancestor(self._found, asked.record, "tokenize")
        key = (trained.digest, str(data and data.record["digest"]), str(tokens and tokens.record["digest"]))
        if key not in self._known:
            self._known[key] = list(self._make(trained, config, data, tokens))
        return self._known[key]

    def _make(
        self, trained: Trained, config: LifecycleConfig, data: Finished | None, tokens: Finished | None
    ) -> Iterator[Cell]:
        checkpoint = Node(trained.stage, "", Config(), finished=trained.finished())
        inputs = {
            name: Node(name, "", Config(), finished=each)
            for name, each in (("data", data), ("tokens", tokens))
            if each is not None
        }
        stages = Stages(config.seed, config.resources)
        nodes = evaluations(stages, self._evaluation(config), [checkpoint], **inputs)
        graph = Graph([checkpoint, *inputs.values(), *nodes], self.identities)
        for node in nodes:
            assert isinstance(node.config, EvaluateConfig)
            export = trained.final if node.config.export == FINAL else node.config.export
            made = planned(graph, node, str(self._store), self._states).model_copy(update={"upstream": ()})
            yield Cell(trained.key(export), node.config.suite, made)

    def _evaluation(self, config: LifecycleConfig) -> Evaluation:
        if self._suites is None:
            return config.evaluate
        own = config.evaluate.suites
        chosen = {name: own.get(name, which) for name, which in self._suites.items()}
        # Not model_copy: what was set explicitly is what a digest is made of, defaults follow the run's seed.
        set_ = {name: getattr(config.evaluate, name) for name in config.evaluate.model_fields_set}
        return Evaluation.model_validate({**set_, "suites": chosen})
