"""Cells of checkpoint x suite: the nodes that the lifecycle would make, in the same directories."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from argosy.core.config.schema import Config
from argosy.core.store.provenance import IDENTITIES, Identities
from steps.evaluate import EvaluateConfig
from workflows.evaluation import Evaluation, evaluations
from workflows.graph import FINAL, Finished, Graph, Node
from workflows.lifecycle import LifecycleConfig
from workflows.nightly.candidates import Candidate, Candidates, ancestor
from workflows.plan import PlannedNode, Store, planned
from workflows.stages import Stages
from workflows.stored.lineage import TrainingStep


@dataclass(frozen=True)
class Cell:
    """A checkpoint (its key) with one suite."""

    checkpoint: str
    suite: str
    node: PlannedNode


class Cells:
    """Makes cells of one store.

    Args:
        suites: instead of those of the config: `all` checkpoints of a step or its `final` one, by suite."""

    def __init__(self, candidates: Candidates, store: Path, suites: Mapping[str, str] | None = None) -> None:
        self._candidates, self._store, self._suites = candidates, store, suites
        self.identities = Identities(store / IDENTITIES if store.is_dir() else None)
        self._states = Store(str(store))
        self._made: dict[tuple[str, str, str], list[Cell]] = {}

    def of(
        self, candidate: Candidate, config: LifecycleConfig, *, items_of: TrainingStep | None = None
    ) -> list[Cell]:
        """The cells of a checkpoint.

        `config`: of the model line: suites, their settings, the seed, resources. `items_of`: another step, whose
        data the items come from: a reference answers the items of the new checkpoint, through its own tokenizer."""
        step = candidate.step
        data = ancestor(self._candidates, (items_of or step).record, "data")
        tokens = ancestor(self._candidates, step.record, "tokenize")
        if not step.record["upstream"] and items_of:  # a model from elsewhere has none of its own
            tokens = ancestor(self._candidates, items_of.record, "tokenize")
        key = (step.digest, str(data and data.record["digest"]), str(tokens and tokens.record["digest"]))
        if key not in self._made:
            self._made[key] = list(self._make(step, config, data, tokens))
        return [cell for cell in self._made[key] if cell.checkpoint == candidate.key]

    def _make(
        self, step: TrainingStep, config: LifecycleConfig, data: Finished | None, tokens: Finished | None
    ) -> Iterator[Cell]:
        exports = tuple(FINAL if name == step.final else name for name in step.exports)
        checkpoint = Node(step.stage, "", Config(), finished=Finished(step.record, str(step.directory), exports))
        inputs = {
            name: Node(name, "", Config(), finished=each)
            for name, each in (("data", data), ("tokens", tokens))
            if each is not None
        }
        stages = Stages(config.seed, config.resources, config.known())
        nodes = evaluations(stages, self._evaluation(config), [checkpoint], **inputs)
        graph = Graph([checkpoint, *inputs.values(), *nodes], self.identities)
        for node in nodes:
            assert isinstance(node.config, EvaluateConfig)
            export = step.final if node.config.export == FINAL else node.config.export
            made = planned(graph, node, str(self._store), self._states).model_copy(update={"upstream": ()})
            yield Cell(step.key(export), node.config.suite, made)

    def _evaluation(self, config: LifecycleConfig) -> Evaluation:
        if self._suites is None:
            return config.evaluate
        own = config.evaluate.suites
        chosen = {name: own.get(name, which) for name, which in self._suites.items()}
        # Not model_copy: what was set explicitly is what a digest is made of, defaults follow the run's seed.
        set_ = {name: getattr(config.evaluate, name) for name in config.evaluate.model_fields_set}
        return Evaluation.model_validate({**set_, "suites": chosen})
