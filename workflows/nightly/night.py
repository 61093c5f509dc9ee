"""A night: new checkpoints, their missing evaluations, the reference of each, and the run of it all on this machine."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from argosy.core.config.schema import Config
from argosy.core.errors import InputError
from argosy.core.store.step_files import read_done
from argosy.core.tracking.mlflow.registry import Registry
from steps.regressions import Pair, RegressionsConfig
from workflows.graph import Finished, Graph, Node
from workflows.lifecycle import LifecycleConfig
from workflows.local.runner import run_plan
from workflows.local.scheduler import Budget
from workflows.local.shipping import Shipping
from workflows.local.view import RunResult
from workflows.nightly.announce import judged_evaluations
from workflows.nightly.candidates import Candidate, Candidates, Cell, Cells, add_elsewhere, find_candidates
from workflows.nightly.references import by_name, reference_for, reference_of
from workflows.plan import Plan, PlannedNode, Store, planned
from workflows.stored.last_run import newest_config

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

    @property
    def missing(self) -> list[str]:
        """Directories of evaluations that are not done."""
        return [path for path in (*self.new, *self.reference_evaluations) if read_done(path) is None]


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
        """The line's config."""
        return LifecycleConfig.model_validate(self.config)

    def judgement(self) -> PlannedNode | None:
        """The node that judges the pairs whose evaluations are all done; None where there is none."""
        ready = [pair for pair in self.pairs if not pair.missing]
        if not ready:
            return None
        nodes: dict[str, Node] = {}
        for path in (path for pair in ready for path in (*pair.new, *pair.reference_evaluations)):
            done = read_done(path)
            assert done is not None
            nodes.setdefault(path, Node(STAGE, "", Config(), part=str(len(nodes)),
                                        finished=Finished(done["made_from"], path)))
        place = {path: n for n, path in enumerate(nodes)}
        pairs = [Pair(new=tuple(place[path] for path in pair.new),
                      reference=tuple(place[path] for path in pair.reference_evaluations)) for pair in ready]
        node = Node("regressions", "regressions", RegressionsConfig(pairs=tuple(pairs), gate=self.lifecycle.gate),
                    inputs={"evaluations": list(nodes.values())})
        made = planned(Graph([*nodes.values(), node]), node, self.store, Store(self.store))
        return made.model_copy(update={"upstream": ()})


def plan_nights(store: Path, request: Request, registry: Registry | None = None,
                place: Callable[[LifecycleConfig], LifecycleConfig] = lambda config: config) -> list[Night]:
    """A night for each model line that has something new, or whose config cannot be read.

    `place`: gives a line's config the resources of the machines that evaluate; it is recorded without them. Raises
    InputError: a name or a suite is wrong; Unavailable: MLflow does not answer, so it is not known what to compare
    with."""
    store = store.absolute()
    candidates = find_candidates(store)
    if registry is not None:
        add_elsewhere(candidates, [(f"{each.checkpoint} ({each.line})", each.path) for each in registry.checkpoints()
                                   if each.checkpoint.rpartition("/")[0] not in candidates.training])
    cells = Cells(candidates, store, dict.fromkeys(request.suites, "all") or None)
    named = [each for name in request.checkpoints for each in by_name(name, candidates, store, cells.identities)]
    every = list({each.key: each for each in named}.values())
    judged = set() if every else judged_evaluations(store)
    every = every or [Candidate(step, export) for step in candidates.training.values() for export in step.exports]
    planner = _Planner(candidates, cells, store, request, registry, place, judged)
    nights = [planner.night(line, [each for each in every if each.step.line == line]) for line in candidates.lines]
    cells.identities.save()
    return [night for night in nights if night.pairs or night.wrong or (night.notes and night is nights[0])]


@dataclass(frozen=True)
class _Planner:
    """Plans the nights of a store."""

    candidates: Candidates
    cells: Cells
    store: Path
    request: Request
    registry: Registry | None
    place: Callable[[LifecycleConfig], LifecycleConfig]
    judged: set[str] = field(default_factory=set)

    def night(self, line: str, every: Sequence[Candidate]) -> Night:
        notes = tuple(dict.fromkeys(self.candidates.notes))
        try:
            config = newest_config(self.store, line, LifecycleConfig) or LifecycleConfig(name=line)
        except InputError as error:
            return Night(store=str(self.store), line=line, config={}, pairs=(), cells=(), notes=notes,
                         wrong=f"{line} is left out: {error}" if every else "")
        placed = self.place(config)
        own = {each.key: self.cells.of(each, placed) for each in every}
        new = [each for each in every
               if own[each.key] and not {cell.node.digest for cell in own[each.key]} <= self.judged]
        reference = reference_of(self.request.reference, self.request.alias, self.request.model or line,
                                 self.candidates, self.store, self.registry) if new else None
        known = reference if isinstance(reference, Candidate) else None  # a name alone cannot be evaluated here
        pairs, nodes = [], dict[str, PlannedNode]()  # by directory
        for each in new:
            pair, cells = self._pair(each, own[each.key], known, placed)
            pairs.append(pair)
            nodes |= {cell.node.dir: cell.node for cell in cells}
        return Night(store=str(self.store), line=line, config=config.model_dump(mode="json", exclude_unset=True),
                     pairs=tuple(pairs), cells=tuple(with_unique_ids(list(nodes.values()))), notes=notes)

    def _pair(self, new: Candidate, own: Sequence[Cell], alias: Candidate | None,
              config: LifecycleConfig) -> tuple[CandidatePair, list[Cell]]:
        reference = reference_for(new, self.candidates, alias)
        suites = {cell.suite for cell in own}
        theirs = [] if reference is None else [
            cell for cell in self.cells.of(reference, config, items_of=new.step) if cell.suite in suites]
        pair = CandidatePair(
            checkpoint=new.key, label=new.label, new=tuple(cell.node.dir for cell in own),
            reference=reference.key if reference and theirs else "",
            reference_evaluations=tuple(cell.node.dir for cell in theirs))  # fmt: skip
        return pair, [*own, *theirs]


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
    """Run the judgement of the finished evaluations."""
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
        lines.append(f"{night.line}: {len(night.pairs)} new checkpoints, {len(missing)} of {len(night.cells)} cells "
                     f"to evaluate, store {night.store}")
        against = [(pair.label, pair.reference or "nothing: the first of its kind") for pair in night.pairs]
        lines += [f"  {label} against {reference}" for label, reference in against]
        lines += [f"  evaluate {Path(node.dir).name}: {node.reason}" for node in missing]
        lines += [f"  note: {note}" for note in night.notes]
    return "\n".join(lines)


def _failures(result: RunResult) -> list[str]:
    stopped = ["stopped"] if result.signal else []
    return stopped + [f"{each.node.id}: {each.message}" for each in result.having("failed")]
