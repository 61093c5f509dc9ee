"""The plan pod: it plans as the laptop does, and hands each task its batches as output parameters.

A tree of post-training is handed over as groups of items, each begun when the items that it needs are done. The
WorkflowTemplate knows no item. It has one template, `branch`, which runs the items of a group, then at once their
evaluations and, by itself again, the groups that follow. So a tree of any shape is as many templates as one item."""

import argparse
import contextlib
import json
import math
import os
import tempfile
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from argosy.core.config.explain import likely
from argosy.core.errors import InputError
from argosy.core.store.files import make_directory, write_json
from workflows.argo import handoff
from workflows.argo.objectstore.pods import planning
from workflows.argo.pod.early import EARLY, early_batches
from workflows.argo.pod.finish import FINISHED
from workflows.argo.pod.jobset import NODES
from workflows.argo.pod.outputs import with_devices, write_outputs
from workflows.argo.profile.profile import TEMPLATE_STORE, Profile, check_store, placement_stage
from workflows.branches import branch_steps
from workflows.budget import accounts, check_budget
from workflows.compose import compose, every_stage
from workflows.graph import definition
from workflows.learnt import applied, learn
from workflows.lifecycle import LifecycleConfig, lifecycle
from workflows.local.shipping import WORKFLOW, pipeline_of, plan_digest, start_pipeline
from workflows.plan import Plan, PlannedNode, describe, plan
from workflows.stored.events import watch_events
from workflows.sweep import NAME, Question, every_sweep_stage, read_sweep, sweep_nodes

SWEEP_FIELDS = ("seeds", "channel", "target-parameters")  # of the template `sweep`, beside the common
TREE = "posttraining"  # task of the DAG
NEXT = "next"  # task of a group, beside one for each of branch_steps() and its evaluations
GROUPS, BATCHES = "groups", "batches"  # outputs of the plan that all templates see
PATCH_OF_EVALUATIONS = "evaluate-sft"  # the task whose pods are as those of items' evaluations


def run(profile: Profile, arguments: argparse.Namespace) -> int:
    fields = arguments.fields.split()
    for name in os.environ.get(handoff.GIVEN, "").split():  # Argo ignores one that the template does not have
        if fields and name not in (*fields, "json"):  # Argo's own `workflow.parameters.json`
            raise InputError(f"the WorkflowTemplate {arguments.template} has no parameter {name!r}; "
                             f"{likely(name, fields)}")
    check_store(profile, os.environ.get(TEMPLATE_STORE, profile.storage.description))
    with planning(profile, arguments.workflow):
        if profile.watches_store:
            watch_events(Path(profile.storage.root))
        if arguments.template == "evaluate":
            from workflows.argo.pod.nightly import plan_night

            return plan_night(profile, arguments)
        return _plan_sweep(profile, arguments) if arguments.template == NAME else _plan_lifecycle(profile, arguments)


def _plan_lifecycle(profile: Profile, arguments: argparse.Namespace) -> int:
    with _given() as (file, overrides):
        config = compose(arguments.preset or None, file, overrides)  # as it is recorded: the devices are the profile's
    nodes = lifecycle(with_devices(config, profile))
    planned = plan(nodes, profile.storage.root, vars(arguments)["from"] or None, arguments.to or None)
    check_budget(accounts(planned, config), planned)
    planned = applied(planned, learn(planned)) if config.learn_resources else planned
    compared = any(node.name == "compare" and (node.to_run or node.state == "done") for node in planned.nodes)
    if arguments.promote != "no" and not compared:  # a person would be asked for nothing
        raise InputError(f"promote is {arguments.promote!r}, but compare is not among the stages from --from to --to "
                         "and was never done: end with compare (an empty 'to'), or leave promote at 'no'")
    items = [branch.name for branch in config.posttraining]
    own, evaluations = item_tasks(planned.nodes, items)
    tasks = [*handoff.tasks_of(every_stage()), *own]
    batches = hand_over(planned, config, config.name, tasks, profile, arguments, evaluations)
    write_tree(arguments.outputs, planned.nodes, items, batches)
    return 0


def _plan_sweep(profile: Profile, arguments: argparse.Namespace) -> int:
    seeds, target = (_number(arguments, name) for name in ("seeds", "target-parameters"))
    with _given() as (file, overrides):
        sweep = read_sweep(arguments.preset or None, file, overrides, int(seeds))
    sweep = replace(sweep, points=tuple(with_devices(point, profile) for point in sweep.points))
    root = Path(profile.storage.root)
    question = Question(arguments.channel or "all", target)
    planned = plan(sweep_nodes(sweep, question, root, together=1), root)  # a pod for each point, up to `batches`
    hand_over(planned, sweep.first, sweep.line, handoff.tasks_of(every_sweep_stage()), profile, arguments)
    return 0


def _number(arguments: argparse.Namespace, name: str) -> float:
    text = getattr(arguments, name.replace("-", "_")).strip()
    try:
        found = float(text or 0)
    except ValueError:
        found = -1.0
    if not 0 <= found < math.inf or (name != "target-parameters" and found != int(found)):
        raise InputError(f"{name} is {text!r}, allowed: a number, 0 or more, or nothing")
    return found


def hand_over(planned: Plan, config: LifecycleConfig, line: str, tasks: list[handoff.Task], profile: Profile,
              arguments: argparse.Namespace, alike: Sequence[handoff.Task] = ()) -> dict[str, dict[str, handoff.Batch]]:
    """Write the handoff, start the pipeline's run, write the output parameters; return the batches by task.

    `alike`: further tasks, whose pods get the patch of one of `tasks`."""
    print(describe(planned), flush=True)
    make_directory(Path(planned.store))
    pipeline = pipeline_of(Path(planned.store), plan_digest(planned), arguments.workflow, todo=len(planned.to_run))
    assigned = handoff.assign(planned.nodes, [*tasks, *alike])
    batches = {task: handoff.deal(task, [node for node in nodes if node.to_run], pipeline, profile.batches)
               for task, nodes in assigned.items()}
    patches = {task.name: PATCH_OF_EVALUATIONS for task in alike}
    early = early_batches(assigned, patches, pipeline, profile.parallelism)
    compare = next((node.dir for node in planned.nodes if node.name in ("compare", NAME)), "")
    made = handoff.Handoff(
        store=planned.store, line=line, pipeline=pipeline,
        nodes={node.id: node.model_dump(mode="json") for node in planned.to_run},
        batches={name: batch for dealt in (*batches.values(), early) for name, batch in dealt.items()},
        report=compare,
        namespace=profile.namespace, cluster=profile.cluster, person=handoff.submitter(), budget=config.budget,
        gpu_hour_price=config.gpu_hour_price,
        directories=tuple(node.dir for node in planned.nodes) if config.budget.limited else ())
    path = made.write(arguments.workflow)
    tracker = start_pipeline(planned, pipeline, line, config, **{WORKFLOW: arguments.workflow})
    unchanged = not planned.to_run and tracker.tracker.last_status == "FINISHED"  # MLflow was: this changes nothing
    if unchanged:
        write_json(path.parent / FINISHED, {"status": "FINISHED"})
    write_outputs(planned, tasks, batches, profile, arguments, describe(planned))
    handoff.write_output(arguments.outputs, "finish", "no" if unchanged else "yes")
    handoff.write_output(arguments.outputs, handoff.COMMON, f"{pipeline}-")
    handoff.write_output(arguments.outputs, EARLY, json.dumps([*early]))
    return batches


@contextlib.contextmanager
def _given() -> Iterator[tuple[Path | None, list[str]]]:
    """Give ARGOSY_CONFIG as a file, if there is any, and ARGOSY_OVERRIDES; errors inside call the file `config`."""
    overrides = [line.strip() for line in os.environ.get("ARGOSY_OVERRIDES", "").splitlines() if line.strip()]
    text = os.environ.get("ARGOSY_CONFIG", "")
    if not text.strip():
        yield None, overrides
        return
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "config"
        file.write_text(text, encoding="utf-8")
        try:
            yield file, overrides
        except InputError as error:
            raise InputError(str(error).replace(str(file), "config")) from None


@dataclass(frozen=True)
class Group:
    """Items that wait for the same ones, and the groups that wait for them, by the names of their first items."""

    items: tuple[str, ...]
    following: tuple[str, ...]


def groups(links: Mapping[str, Collection[str]], names: Sequence[str] | None = None) -> dict[str, Group]:
    """Group items so that each comes after those that it needs, by the group's first item.

    Branches that need nothing of each other are groups apart: neither waits for the other. Items that become ready
    together and are both needed by a later one are one group.

    Args:
        links: by item, the items that it needs.
        names: the items to group, in their order, where others are done before; None: all."""
    left = list(links) if names is None else list(names)
    found: dict[str, Group] = {}
    for component in _components(left, links):
        ready = tuple(name for name in component if not component & {*links[name]})
        ordered = tuple(name for name in left if name in ready)
        rest = groups(links, [name for name in left if name in component and name not in ready])
        deeper = {name for group in rest.values() for name in group.following}
        found |= {ordered[0]: Group(ordered, tuple(name for name in rest if name not in deeper)), **rest}
    return found


def _components(names: Sequence[str], links: Mapping[str, Collection[str]]) -> list[set[str]]:
    """Split `names` into sets between which there is no link."""
    found: list[set[str]] = []
    for name in names:
        linked = [each for each in found if each & {*links[name]}]
        found = [each for each in found if each not in linked] + [{name}.union(*linked)]
    return found


def item_tasks(nodes: Sequence[PlannedNode], items: Collection[str]) -> tuple[list[handoff.Task], list[handoff.Task]]:
    """Make a task of each item, and one of each item's evaluations; none of them is a task of the DAG."""
    tasks: dict[str, handoff.Task] = {}
    evaluations: dict[str, handoff.Task] = {}
    for node in nodes:
        needs = definition(node.step).needs
        if node.name in items:
            place = placement_stage(node.name, node.step)
            tasks[node.name] = handoff.Task(node.name, node.name, frozenset(), (), needs, parts=False, place=place)
        elif node.name == handoff.EVALUATE.name:
            for item in {*node.upstream} & {*items}:
                stage = handoff.EVALUATE.stage
                evaluations[item] = handoff.Task(f"evaluate-{item}", stage, frozenset({item}), (), needs)
    return list(tasks.values()), list(evaluations.values())


def write_tree(folder: Path, nodes: Sequence[PlannedNode], items: Sequence[str],
               dealt: Mapping[str, Mapping[str, handoff.Batch]]) -> None:
    """Write the outputs of the plan that the template `branch` reads: groups with something to run, and their batches.

    Args:
        dealt: batches by task, those of `item_tasks` among them."""
    links = {node.name: {*node.upstream} & {*items} for node in nodes if node.name in items}
    steps = {node.name: node.step for node in nodes}
    several = {node.name for node in nodes if node.resources.nodes > 1}
    batches = {name: batch for name in links for batch in dealt[name]}
    evaluations = {name: {f"{name}-{batch.rpartition('-')[2]}": batch for batch in dealt.get(f"evaluate-{name}", {})}
                   for name in links}  # fmt: skip
    found: dict[str, dict[str, list[str]]] = {}
    grouped = groups(links)
    for key, group in reversed(grouped.items()):  # those that follow come behind
        work = {step: [name for name in group.items if steps[name] == step and name in batches]
                for step in branch_steps()}
        work[NODES] = [name for name in group.items if name in several and name in batches]
        work[handoff.EVALUATE.name] = [batch for name in group.items for batch in evaluations[name]]
        work[NEXT] = [name for name in group.following if name in found]
        if any(work.values()):
            found[key] = work
    followed = {name for group in grouped.values() for name in group.following}
    for names in evaluations.values():
        batches |= names
    handoff.write_output(folder, GROUPS, json.dumps(found))
    handoff.write_output(folder, BATCHES, json.dumps(batches))
    handoff.write_output(folder, f"run-{TREE}", json.dumps(list(batches.values())))
    handoff.write_output(folder, TREE, json.dumps([name for name in grouped if name in found and name not in followed]))
