"""A plan of a graph: each node's directory, command and state. Every backend runs this list."""

import json
import os
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import cache, cached_property
from pathlib import Path
from typing import Any, Literal, NamedTuple

from argosy.core.config.explain import first_of, grouped, nearest
from argosy.core.config.schema import Config, Role
from argosy.core.errors import InputError
from argosy.core.store.files import read_record
from argosy.core.store.lease import live_holder
from argosy.core.store.provenance import DIGITS, IDENTITIES, Identities, differences
from argosy.core.store.remote import absolute
from argosy.core.store.step_files import ERROR, NODE, OUTPUTS, RUN, cut_file, parts_to_retry, read_whole
from argosy.corpus.text.display import columns
from argosy.model.weights.checkpoint import EXPORTS
from workflows.graph import Graph, Node, Resources, prefix

NEVER = "never ran"


class State(NamedTuple):
    """The state of one node, and the reason for people."""

    name: Literal["done", "running", "failed", "pending"]
    reason: str


class Store:
    """The directories below `root`, listed once."""

    def __init__(self, root: str) -> None:
        self._root = root

    def of(self, directory: str, prefix: str, made_from: Mapping[str, Any]) -> State:
        """Read the state of the node that `directory` belongs to; `made_from` is its record as of now."""
        if os.path.basename(directory) not in self._names:
            return State("pending", self._why_new(directory, prefix, made_from))
        return state_of(directory) or State("pending", self._why_new(directory, prefix, made_from))

    @cached_property
    def _names(self) -> set[str]:
        try:
            return set(os.listdir(self._root))
        except (FileNotFoundError, NotADirectoryError):
            return set()

    @cached_property
    def _siblings(self) -> dict[str, list[str]]:
        found: dict[str, list[str]] = defaultdict(list)
        for name in self._names:
            prefix, _, digest = name.rpartition("-")
            if len(digest) == DIGITS:
                found[prefix].append(f"{self._root}/{name}")
        return found

    def _why_new(self, directory: str, prefix: str, made_from: Mapping[str, Any]) -> str:
        """Compare with the newest finished directory of that node; without one, with the newest."""
        others = [path for path in self._siblings.get(prefix, ()) if path != directory]
        for path in sorted(others, key=_rank, reverse=True):
            old = read_record(f"{path}/{NODE}")
            if old.get("node") == made_from["node"] and old.get("part") == made_from["part"]:
                changes = differences(old, made_from)
                unfinished = "" if _rank(path)[0] else ", which did not finish"
                kind = "config changed: " if any(" -> " in change for change in changes) else ""
                return f"{kind}{first_of(changes, 4, '; ')} (was {path}{unfinished})"
        return NEVER


def state_of(directory: str) -> State | None:
    """Read the state of a step's directory; None where nothing has begun there."""
    done = read_whole(directory)
    if done is not None and not (again := parts_to_retry(done)):
        return State("done", "done")
    if holder := live_holder(directory):
        return State("running", f"running: process {holder.pid} on {holder.host}")
    if done is not None:
        last = read_record(f"{directory}/{ERROR}").get("message")
        in_vain = f" (last time: {last})" if last else ""
        return State("pending", f"done, but failed in part: {', '.join(again)}; retried{in_vain}")
    if os.path.exists(f"{directory}/{OUTPUTS}"):
        cut = cut_file(directory, read_record(f"{directory}/{OUTPUTS}"))
        return State("pending", f"{cut or f'{OUTPUTS} is broken'}: the step runs again")
    if error := read_record(f"{directory}/{ERROR}"):
        return State("failed", f"failed before: {error.get('message', '')}")
    run = read_record(f"{directory}/{RUN}")
    how = "was killed" if run.get("exit") is None else "was stopped"
    return State("pending", f"{how} in attempt {run.get('attempts', 1)}; continues from there") if run else None


def blocked_by(upstream: Mapping[str, Iterable[str]], failed: Collection[str]) -> dict[str, str]:
    """Find the ids that wait for a failed one, and for which. upstream: dependencies of each id; without cycles."""

    @cache
    def cause(key: str) -> str | None:
        found = (each if each in failed else cause(each) for each in upstream.get(key, ()))
        return next((each for each in found if each), None)

    return {key: found for key in upstream if (found := cause(key))}


def _rank(directory: str) -> tuple[bool, float]:
    for name in (OUTPUTS, NODE):
        try:
            return name == OUTPUTS, os.stat(f"{directory}/{name}").st_mtime
        except OSError:
            continue
    return False, 0.0


class PlannedNode(Config):
    """A node that any backend can start."""

    id: str
    name: str
    part: str
    step: str
    digest: str
    dir: str
    config: str
    """JSON of the step's config, with the directories of what is upstream filled in."""
    provenance: str
    """JSON of the node's name, part and the digests of its inputs, for its `outputs.json`."""
    upstream: tuple[str, ...]
    """Ids of the nodes that it depends on."""
    resources: Resources
    batch: int
    early: str = ""
    """The export of one of these that is enough of it; "" where it must have ended."""
    most_minutes: float = 0.0
    """Time that its training may take; 0: nothing says."""
    state: Literal["done", "running", "failed", "pending"]
    """`done`; `running` (in another process); `failed` (the last attempt did); `pending`."""
    reason: str
    """Why it is in that state, or why it has to run."""
    selected: bool = True
    """Whether it is inside the range of stages that this run covers."""

    @property
    def command(self) -> list[str]:
        """The one command line that runs it, on a laptop and in a pod alike."""
        return ["python", "-m", f"steps.{self.step}", "--config", self.config, "--out", self.dir,
                "--node", self.provenance]

    @property
    def to_run(self) -> bool:
        return self.selected and self.state != "done"


class Plan(Config):
    """All nodes of a graph, each after what it depends on. As JSON: `model_dump_json`, `model_validate_json`."""

    store: str
    stages: tuple[str, ...]
    nodes: tuple[PlannedNode, ...]

    @property
    def to_run(self) -> list[PlannedNode]:
        return [node for node in self.nodes if node.to_run]


def plan(nodes: Iterable[Node], store: Path | str, first: str | None = None, last: str | None = None) -> Plan:
    """Resolve `nodes` against what `store` holds.

    Args:
        first, last: names of the first and last stage to run, both included; what comes before must be done.

    Raises InputError: a wrong graph, an unknown stage, a range that is empty or whose inputs are not done."""
    root = str(Path(store).absolute())
    if os.fsencode(root).decode(errors="replace") != root:
        raise InputError(f"the path of the store, {root!a}, is not UTF-8: name another --store, or rename the folder")
    identities = Identities(Path(root, IDENTITIES) if os.path.isdir(root) else None)
    graph = Graph(nodes, identities)
    identities.save()
    selected = stage_range(graph.stages, first, last)
    states = Store(root)
    found = [planned(graph, node, root, states, selected=node.name in selected) for node in graph.nodes]
    result = Plan(store=root, stages=tuple(graph.stages), nodes=tuple(found))
    unavailable = {node.id for node in result.nodes if not node.selected and node.state != "done"}
    missing = sorted({key for node in result.to_run for key in node.upstream if key in unavailable})
    if missing:
        raise InputError(f"the range{f' from {first!r}' if first else ''} needs what is not done yet: "
                         f"{first_of(missing, 5)}; run without --from, or from an earlier stage")
    return result


def check_inputs(nodes: Iterable[Node], to_run: Collection[str]) -> None:
    """Ask the steps what they would refuse minutes or hours later, as far as a look at their inputs tells.

    `to_run`: names of the stages that are to run. Raises InputError: one would refuse."""
    every = [*nodes]
    parts = grouped(((node.name, node.step), node) for node in every if node.name in to_run and not node.finished)
    for some in parts.values():
        if check := some[0].definition.check:
            check(some, every)


def planned(graph: Graph, node: Node, root: str, states: Store, *, selected: bool = True) -> PlannedNode:
    """Plan a node of `graph`: its directory below `root`, its state there and its command."""
    directory = graph.directory(node, root)
    state = states.of(directory, prefix(node.name, node.part), graph.made_from(node))
    if not selected and state.name == "pending" and read_whole(directory) is not None:
        state = State("done", state.reason)  # to be retried, but not by this run, which reads its results
    provenance = {key: graph.made_from(node)[key] for key in ("node", "part", "upstream", "external")}
    return PlannedNode.model_construct(  # values are ours: validating ten thousand of them takes a second
        id=node.id, name=node.name, part=node.part, step=node.step, digest=graph.digest(node), dir=directory,
        config=_wired(graph, node, root).model_dump_json(), provenance=json.dumps(provenance, ensure_ascii=False),
        upstream=tuple(dict.fromkeys(n.id for nodes in node.upstream.values() for n in nodes)),
        early=_export_of(graph, node, root) if node.early else "", resources=node.resources, batch=node.batch,
        most_minutes=node.most_minutes, state=state.name, reason=state.reason, selected=selected)


def _export_of(graph: Graph, node: Node, root: str) -> str:
    return f"{graph.directory(node.upstream['checkpoint'][0], root)}/{EXPORTS}/{getattr(node.config, 'export', '')}"


def _wired(graph: Graph, node: Node, root: str) -> Config:
    """Fill in the directories of upstream nodes, and absolute paths of external files."""
    values: dict[str, str | tuple[str, ...] | dict[str, str]] = {}
    for name, nodes in node.upstream.items():
        paths = tuple(graph.directory(n, root) for n in nodes)
        values[name] = paths[0] if type(node.config).model_fields[name].annotation is str else paths
    for name in node.config.fields_with(Role.EXTERNAL):
        value = getattr(node.config, name)
        if isinstance(value, dict):
            values |= {name: {key: absolute(path) for key, path in value.items()}} if value else {}
        elif value:
            values[name] = absolute(value) if isinstance(value, str) else tuple(map(absolute, value))
    return node.config.model_copy(update=values) if values else node.config


def stage_range(stages: Sequence[str], first: str | None, last: str | None) -> set[str]:
    """Select the stages from `first` to `last`, both included; None: from the beginning, to the end. Raises InputError:
    a name that is not among `stages`, or an empty range."""
    order = " -> ".join(stages)
    for stage in (first, last):
        if stage is not None and stage not in stages:
            near = nearest(stage, stages)
            raise InputError(f"there is no stage {stage!r}; " + (f"nearest: {', '.join(near)}; " if near else "")
                             + f"the stages are {order}")
    start = stages.index(first) if first else 0
    end = stages.index(last) if last else len(stages) - 1
    if start > end:
        raise InputError(f"the range from {first!r} to {last!r} is empty: the order is {order}")
    return set(stages[start:end + 1])


def describe(planned: Plan) -> str:
    """Describe each stage and state in a line: how many nodes, what would happen, why."""
    groups = grouped(((node.name, _action(node)), node) for node in planned.nodes)
    rows = [("NODE", "PARTS", "", "WHY")]
    for (name, action), nodes in groups.items():
        first, *others = dict.fromkeys("" if node.state == "done" else node.reason for node in nodes)
        why = first + (f" (and {len(others)} other reasons)" if others else "")
        rows.append((name, str(len(nodes)) if nodes[0].part else "", action, why))
    total = f"{len(planned.to_run)} of {len(planned.nodes)} nodes to run, store {planned.store}"
    return f"{columns(rows, right=(1,))}\n{total}"


def _action(node: PlannedNode) -> str:
    if node.state == "done":
        return "done"
    if not node.selected:
        return "left out"
    gpus, processes, nodes = node.resources.all_gpus, node.resources.processes, node.resources.nodes
    size = f"{gpus} GPUs" if gpus else f"{processes} processes" if processes > 1 else ""
    return ", ".join(filter(None, ("run", size + (f" on {nodes} nodes" if nodes > 1 else ""), training_limit(node))))


def training_limit(*nodes: PlannedNode) -> str:
    """Say how long the training of nodes may take; "" where nothing says."""
    minutes = sum(node.most_minutes for node in nodes)
    return f"at most {minutes:g} minutes of training" if minutes else ""
