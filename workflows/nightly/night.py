"""What a night has to do: which checkpoints are new, which cells are missing, what each is held against."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from argosy.config import Config
from argosy.errors import InputError
from argosy.step_files import read_done
from steps.judge import JudgeConfig, Pair
from workflows.graph import Graph
from workflows.lifecycle import LifecycleConfig
from workflows.nightly.aliases import Aliases
from workflows.nightly.cells import Cell, Cells
from workflows.nightly.found import Found, add_known, find
from workflows.nightly.judged import judged_evaluations
from workflows.nightly.reference import Chosen, by_key, by_name, reference_for
from workflows.node import Finished, Node
from workflows.pipelines import newest_config
from workflows.plan import Plan, PlannedNode, planned
from workflows.state import Store

STAGE = "evaluate"


@dataclass(frozen=True)
class Asked:
    """What a person or a template asks for; all may be empty.

    Attributes:
        checkpoints: names or directories; empty: all that are new.
        suites: names; empty: those of the model line's config.
        reference: an alias of the registry, or a checkpoint; empty: the alias `alias`, where there is one.
    """

    checkpoints: Sequence[str] = ()
    suites: Sequence[str] = ()
    reference: str = ""
    alias: str = "reference"
    model: str = ""


class Against(Config):
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
    pairs: tuple[Against, ...]
    cells: tuple[PlannedNode, ...]
    notes: tuple[str, ...] = ()

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
        node = Node("judge", "judge", JudgeConfig(pairs=tuple(pairs), gate=self.lifecycle.gate),
                    inputs={"evaluations": list(nodes.values())})
        made = planned(Graph([*nodes.values(), node]), node, self.store, Store(self.store))
        return made.model_copy(update={"upstream": ()})


@dataclass
class _Look:
    """What is collected over the new checkpoints of a line."""

    pairs: list[Against] = field(default_factory=list)
    cells: dict[str, PlannedNode] = field(default_factory=dict)  # by directory


def look(store: Path, asked: Asked, aliases: Aliases | None = None) -> list[Night]:
    """A night for each model line that has something new.

    Raises:
        InputError: a name or a suite is wrong.
        Unavailable: MLflow does not answer, so it is not known what to compare with.
    """
    store = store.absolute()
    found = find(store)
    if aliases is not None:
        add_known(found, [(f"{each.checkpoint} ({each.line})", each.path) for each in aliases.checkpoints()
                          if each.checkpoint.rpartition("/")[0] not in found.trained])
    cells = Cells(found, store, dict.fromkeys(asked.suites, "all") or None)
    wanted = [chosen for name in asked.checkpoints for chosen in by_name(name, found, store, cells.identities)]
    wanted = list({chosen.key: chosen for chosen in wanted}.values())
    judged = set() if wanted else judged_evaluations(store)
    every = wanted or [Chosen(t, export) for t in found.trained.values() for export in t.exports]
    nights = [_night(line, [c for c in every if c.trained.line == line], judged, cells, found, store, asked, aliases)
              for line in found.lines]
    cells.identities.save()
    return [night for night in nights if night.pairs or (night.notes and night is nights[0])]


def _night(line: str, every: Sequence[Chosen], judged: set[str], cells: Cells, found: Found, store: Path,
           asked: Asked, aliases: Aliases | None) -> Night:
    config = newest_config(store, line) or LifecycleConfig(name=line)
    own = {chosen.key: _of(chosen, cells.of(chosen.trained, config)) for chosen in every}
    new = [c for c in every if own[c.key] and not {cell.node.digest for cell in own[c.key]} <= judged]
    reference = _reference(line, found, store, cells, asked, aliases) if new else None
    at_work = _Look()
    for chosen in new:
        _add(at_work, chosen, own[chosen.key], reference_for(chosen, found, reference), cells, config)
    return Night(store=str(store), line=line, config=config.model_dump(mode="json", exclude_unset=True),
                 pairs=tuple(at_work.pairs), cells=tuple(_named(list(at_work.cells.values()))),
                 notes=tuple(dict.fromkeys(found.notes)))


def _of(chosen: Chosen, cells: Sequence[Cell]) -> list[Cell]:
    return [cell for cell in cells if cell.checkpoint == chosen.key]


def _add(at_work: _Look, new: Chosen, own: Sequence[Cell], reference: Chosen | None, cells: Cells,
         config: LifecycleConfig) -> None:
    suites = {cell.suite for cell in own}
    theirs = [] if reference is None else [
        cell for cell in _of(reference, cells.of(reference.trained, config, asked=new.trained))
        if cell.suite in suites]
    at_work.cells |= {cell.node.dir: cell.node for cell in (*own, *theirs)}
    at_work.pairs.append(Against(
        checkpoint=new.key, label=new.label, new=tuple(cell.node.dir for cell in own),
        reference=reference.key if reference and theirs else "",
        reference_evaluations=tuple(cell.node.dir for cell in theirs)))


def _named(nodes: Sequence[PlannedNode]) -> list[PlannedNode]:
    """With ids that differ: checkpoints of two configs have cells of one name."""
    times = Counter(node.id for node in nodes)
    return [node if times[node.id] == 1 else node.model_copy(update={"id": f"{node.id}-{node.digest}"})
            for node in nodes]


def _reference(line: str, found: Found, store: Path, cells: Cells, asked: Asked,
               aliases: Aliases | None) -> Chosen | None:
    alias = asked.reference or asked.alias
    version = aliases.at(asked.model or line, alias) if aliases is not None else None
    if version is not None:
        if by_key(version.checkpoint, found) is None:
            add_known(found, [(f"{alias} ({version.checkpoint})", version.path)])
        return by_key(version.checkpoint, found)
    if not asked.reference:
        return None
    try:
        return by_name(asked.reference, found, store, cells.identities)[-1]
    except InputError as error:
        raise InputError(f"reference: {asked.reference!r} is no alias of the registered model "
                         f"{asked.model or line!r}, and {error}") from None
