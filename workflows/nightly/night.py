"""A night: new checkpoints, their missing evaluations, the reference of each, and the run of it all on this machine."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

from pydantic import Field

from argosy.core.config.schema import Config
from argosy.core.errors import InputError
from argosy.core.store.provenance import IDENTITIES, Identities
from argosy.core.store.step_files import read_done
from argosy.core.tracking.mlflow.registry import Registry
from argosy.evidence.results.evaluation import SuiteConfig
from steps.regressions import Pair, RegressionsConfig
from workflows.evaluation import Evaluation, evaluations
from workflows.graph import FINAL, Finished, Graph, Node
from workflows.lifecycle import LifecycleConfig
from workflows.local.runner import run_plan
from workflows.local.scheduler import Budget
from workflows.local.shipping import Shipping
from workflows.local.view import RunResult
from workflows.nightly.announce import judged_evaluations
from workflows.nightly.candidates import (
    Candidate,
    Candidates,
    add_elsewhere,
    ancestor,
    by_name,
    earlier_of,
    find_candidates,
    reference_for,
    reference_of,
)
from workflows.plan import Plan, PlannedNode, Store, planned, training_limit
from workflows.stages import Stages
from workflows.stored.last_run import newest_config
from workflows.stored.lineage import TrainingStep

STAGE = "evaluate"


@dataclass(frozen=True)
class Request:
    """The wishes of a person or a template for a night; all may be empty."""

    checkpoints: Sequence[str] = ()
    """Names or directories; empty: all that are new."""
    suites: Sequence[str] = ()
    """Names; empty: those of the model line's config."""
    reference: str = ""
    """An alias of the registry, or a checkpoint; empty: the alias `alias`, where there is one."""
    alias: str = "reference"
    model: str = ""


class CandidatePair(Config):
    """A new checkpoint and its reference: their keys, and the directories of their evaluations."""

    checkpoint: str
    label: str
    new: tuple[str, ...]
    reference: str = ""
    reference_evaluations: tuple[str, ...] = ()
    earlier: tuple[tuple[str, ...], ...] = ()
    """evaluations of earlier checkpoints of its run, of which those count that are done"""
    mixture: dict[str, float] = Field({})
    """weights of the channels that the run reads"""

    @property
    def missing(self) -> list[str]:
        """Directories of evaluations that are not done."""
        return [path for path in (*self.new, *self.reference_evaluations) if read_done(path) is None]


def _done(paths: Sequence[str]) -> tuple[str, ...]:
    return tuple(path for path in paths if read_done(path) is not None)


class Night(Config):
    """The work on one model line; as JSON, what a cluster's first pod hands to its last one."""

    store: str
    line: str
    config: Mapping[str, object]
    pairs: tuple[CandidatePair, ...]
    cells: tuple[PlannedNode, ...]
    notes: tuple[str, ...] = ()
    wrong: str = ""
    """Why a line is left out, whose config cannot be read; the others go on."""

    @property
    def plan(self) -> Plan:
        """The cells, those that are done included."""
        return Plan(store=self.store, stages=(STAGE,), nodes=self.cells)

    @property
    def lifecycle(self) -> LifecycleConfig:
        return LifecycleConfig.model_validate(self.config)

    def judgement(self) -> PlannedNode | None:
        """The node that judges the pairs whose evaluations are all done; None where there is none."""
        ready = [pair.model_copy(update={"earlier": tuple(filter(None, map(_done, pair.earlier)))})
                 for pair in self.pairs if not pair.missing]
        if not ready:
            return None
        nodes: dict[str, Node] = {}
        for path in (path for pair in ready
                     for path in (*pair.new, *pair.reference_evaluations, *chain.from_iterable(pair.earlier))):
            done = read_done(path)
            assert done is not None
            nodes.setdefault(path, Node(STAGE, "", Config(), part=str(len(nodes)),
                                        finished=Finished(done["made_from"], path)))
        place = {path: n for n, path in enumerate(nodes)}
        pairs = [Pair(new=tuple(place[path] for path in pair.new),
                      reference=tuple(place[path] for path in pair.reference_evaluations),
                      earlier=tuple(tuple(place[path] for path in paths) for paths in pair.earlier),
                      mixture=pair.mixture) for pair in ready]
        node = Node("regressions", "regressions", RegressionsConfig(pairs=tuple(pairs), gate=self.lifecycle.gate),
                    inputs={"evaluations": list(nodes.values())})
        made = planned(Graph([*nodes.values(), node]), node, self.store, Store(self.store))
        return made.model_copy(update={"upstream": ()})


def plan_nights(store: Path, request: Request, registry: Registry | None = None,
                place: Callable[[LifecycleConfig], LifecycleConfig] = lambda config: config) -> list[Night]:
    """A night for each model line that has something new, or whose config cannot be read.

    `place`: gives a line's config the resources of the machines that evaluate; it is recorded without them. Raises
    InputError: a name or a suite is wrong; Unavailable: MLflow does not answer: nothing to compare with."""
    store = store.absolute()
    candidates = find_candidates(store)
    if registry is not None:
        add_elsewhere(candidates, [(f"{each.checkpoint} ({each.line})", each.path) for each in registry.checkpoints()
                                   if each.checkpoint.rpartition("/")[0] not in candidates.training])
    planner = _Planner(candidates, store, request, registry, place)
    named = [each for name in request.checkpoints for each in by_name(name, candidates, store, planner.identities)]
    every = list({each.key: each for each in named}.values())
    planner.judged = set() if every else judged_evaluations(store)
    every = every or [Candidate(step, export) for step in candidates.training.values() for export in step.exports]
    nights = [planner.night(line, [each for each in every if each.step.line == line]) for line in candidates.lines]
    planner.identities.save()
    return [night for night in nights if night.pairs or night.wrong or (night.notes and night is nights[0])]


@dataclass(frozen=True)
class Cell:
    """A checkpoint (its key) with one suite: a node that the lifecycle would make, in the same directory."""

    checkpoint: str
    suite: str
    node: PlannedNode


class _Planner:
    """Plans the nights of a store."""

    def __init__(self, candidates: Candidates, store: Path, request: Request, registry: Registry | None,
                 place: Callable[[LifecycleConfig], LifecycleConfig]) -> None:
        self._candidates, self._store, self._request = candidates, store, request
        self._registry, self._place = registry, place
        self.identities = Identities(store / IDENTITIES if store.is_dir() else None)
        self.judged: set[str] = set()
        self._states = Store(str(store))
        self._made: dict[tuple[str, str, str], list[Cell]] = {}

    def night(self, line: str, every: Sequence[Candidate]) -> Night:
        notes = tuple(dict.fromkeys(self._candidates.notes))
        try:
            config = newest_config(self._store, line, LifecycleConfig) or LifecycleConfig(name=line)
        except InputError as error:
            return Night(store=str(self._store), line=line, config={}, pairs=(), cells=(), notes=notes,
                         wrong=f"{line} is left out: {error}" if every else "")
        placed = self._place(config)
        own = {each.key: self._cells(each, placed) for each in every}
        new = [each for each in every
               if own[each.key] and not {cell.node.digest for cell in own[each.key]} <= self.judged]
        reference = reference_of(self._request.reference, self._request.alias, self._request.model or line,
                                 self._candidates, self._store, self._registry) if new else None
        known = reference if isinstance(reference, Candidate) else None  # a name alone cannot be evaluated here
        pairs, nodes = [], dict[str, PlannedNode]()  # by directory
        for each in new:
            pair, cells = self._pair(each, own[each.key], known, placed)
            pairs.append(pair)
            nodes |= {cell.node.dir: cell.node for cell in cells}
        return Night(store=str(self._store), line=line, config=config.model_dump(mode="json", exclude_unset=True),
                     pairs=tuple(pairs), cells=tuple(with_unique_ids(list(nodes.values()))), notes=notes)

    def _pair(self, new: Candidate, own: Sequence[Cell], alias: Candidate | None,
              config: LifecycleConfig) -> tuple[CandidatePair, list[Cell]]:
        reference = reference_for(new, self._candidates, alias)
        suites = {cell.suite for cell in own}
        theirs = [] if reference is None else [
            cell for cell in self._cells(reference, config, items_of=new.step) if cell.suite in suites]
        earlier = tuple(tuple(cell.node.dir for cell in self._cells(each, config))
                        for each in earlier_of(new, self._candidates))
        pair = CandidatePair(
            checkpoint=new.key, label=new.label, new=tuple(cell.node.dir for cell in own),
            reference=reference.key if reference and theirs else "",
            reference_evaluations=tuple(cell.node.dir for cell in theirs), earlier=earlier,
            mixture=new.step.record["config"].get("mixture") or {})  # fmt: skip
        return pair, [*own, *theirs]

    def _cells(self, candidate: Candidate, config: LifecycleConfig, *, items_of: TrainingStep | None = None
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

    def _make(self, step: TrainingStep, config: LifecycleConfig, data: Finished | None, tokens: Finished | None
              ) -> Iterator[Cell]:
        exports = tuple(FINAL if name == step.final else name for name in step.exports)
        checkpoint = Node(step.stage, "", Config(), finished=Finished(step.record, str(step.directory), exports))
        inputs = {name: Node(name, "", Config(), finished=each)
                  for name, each in (("data", data), ("tokens", tokens)) if each is not None}
        evaluation = config.evaluate
        if self._request.suites:
            # Not model_copy: what was set explicitly is what a digest is made of, defaults follow the run's seed.
            set_ = {name: getattr(evaluation, name) for name in evaluation.model_fields_set}
            chosen = {name: evaluation.suites.get(name, "all") for name in self._request.suites}
            evaluation = Evaluation.model_validate({**set_, "suites": chosen})
        stages = Stages(config.seed, config.resources, config.known())
        nodes = evaluations(stages, evaluation, [checkpoint], **inputs)
        graph = Graph([checkpoint, *inputs.values(), *nodes], self.identities)
        for node in nodes:
            assert isinstance(node.config, SuiteConfig)
            export = step.final if node.config.export == FINAL else node.config.export
            made = planned(graph, node, str(self._store), self._states).model_copy(update={"upstream": ()})
            yield Cell(step.key(export), node.config.suite, made)


def with_unique_ids(nodes: Sequence[PlannedNode]) -> list[PlannedNode]:
    """The nodes with ids that differ: checkpoints of two configs have cells of one name."""
    times = Counter(node.id for node in nodes)
    return [node if times[node.id] == 1 else node.model_copy(update={"id": f"{node.id}-{node.digest}"})
            for node in nodes]


def run_night(night: Night, budget: Budget | None = None, *, plain: bool = False) -> list[str]:
    """Evaluate and judge; returns what went wrong, a line each. A checkpoint that fails holds up no other."""
    with Shipping(night.plan, night.line, night.lifecycle) as shipping:
        result = run_plan(night.plan, budget=budget, observers=[shipping], plain=plain)
        failed = _failures(result)
        judgement = night.judgement() if not result.signal else None
        if judgement is not None and judgement.to_run:
            judged = run_judgement(night, judgement, plain=plain)
            failed += _failures(judged)
            if judged.exit_code:
                shipping.on_end(judged)
    return failed


def run_judgement(night: Night, judgement: PlannedNode, *, plain: bool = False) -> RunResult:
    return run_plan(Plan(store=night.store, stages=("regressions",), nodes=(judgement,)), plain=plain)


def report_of(night: Night) -> Path | None:
    """The page of the judgement; None where that is not done."""
    judgement = night.judgement()
    page = Path(judgement.dir) / "report.html" if judgement is not None else None
    return page if page is not None and page.is_file() else None


def describe(nights: Sequence[Night]) -> str:
    """The plan of the nights, for people."""
    lines = [night.wrong for night in nights if night.wrong]
    if not any(night.pairs for night in nights):
        notes = (f"note: {note}" for night in nights for note in night.notes)
        return "\n".join([*notes, *(lines or ["nothing is new"])])
    for night in (each for each in nights if not each.wrong):
        missing = night.plan.to_run
        training = f", {limit} in all" if (limit := training_limit(*missing)) else ""
        lines.append(f"{night.line}: {len(night.pairs)} new checkpoints, {len(missing)} of {len(night.cells)} cells "
                     f"to evaluate{training}, store {night.store}")
        against = [(pair.label, pair.reference or "nothing: the first of its kind") for pair in night.pairs]
        lines += [f"  {label} against {reference}" for label, reference in against]
        lines += [f"  evaluate {Path(node.dir).name}: {node.reason}" for node in missing]
        lines += [f"  note: {note}" for note in night.notes]
    return "\n".join(lines)


def _failures(result: RunResult) -> list[str]:
    stopped = ["stopped"] if result.signal else []
    return stopped + [f"{each.node.id}: {each.message}" for each in result.having("failed")]
