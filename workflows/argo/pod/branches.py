"""A tree of post-training as a workflow runs it: groups of items, each begun when the items that it needs are done.

The WorkflowTemplate knows no item. It has one template, `branch`, which runs the items of a group, then at once their
evaluations and, by itself again, the groups that follow. So a tree of any shape is as many templates as one item."""

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from workflows.argo.handoff import Batch, Task
from workflows.argo.pod.outputs import write_output
from workflows.argo.profile.profile import placement_stage
from workflows.branches import branch_steps
from workflows.graph import definition
from workflows.plan import PlannedNode

TREE = "posttraining"  # task of the DAG
EVALUATE, NEXT = "evaluate", "next"  # tasks of a group, beside one for each of branch_steps()
GROUPS, BATCHES = "groups", "batches"  # outputs of the plan that all templates see
PATCH_OF_EVALUATIONS = "evaluate-sft"  # the task whose pods are as those of items' evaluations


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


def item_tasks(nodes: Sequence[PlannedNode], items: Collection[str]) -> tuple[list[Task], list[Task]]:
    """Make a task of each item, and one of each item's evaluations; none of them is a task of the DAG."""
    tasks: dict[str, Task] = {}
    evaluations: dict[str, Task] = {}
    for node in nodes:
        needs = definition(node.step).needs
        if node.name in items:
            place = placement_stage(node.name, node.step)
            tasks[node.name] = Task(node.name, node.name, frozenset(), (), needs, parts=False, place=place)
        elif node.name == EVALUATE:
            for item in {*node.upstream} & {*items}:
                evaluations[item] = Task(f"{EVALUATE}-{item}", EVALUATE, frozenset({item}), (), needs)
    return list(tasks.values()), list(evaluations.values())


def write_tree(
    folder: Path, nodes: Sequence[PlannedNode], items: Sequence[str], dealt: Mapping[str, Mapping[str, Batch]]
) -> None:
    """Write the outputs of the plan that the template `branch` reads: groups with something to run, and their batches.

    Args:
        dealt: batches by task, those of `item_tasks` among them."""
    links = {node.name: {*node.upstream} & {*items} for node in nodes if node.name in items}
    steps = {node.name: node.step for node in nodes}
    batches = {name: batch for name in links for batch in dealt[name]}
    evaluations = {name: {f"{name}-{batch.rpartition('-')[2]}": batch for batch in dealt.get(f"{EVALUATE}-{name}", {})}
                   for name in links}  # fmt: skip
    found: dict[str, dict[str, list[str]]] = {}
    grouped = groups(links)
    for key, group in reversed(grouped.items()):  # those that follow come behind
        work = {step: [name for name in group.items if steps[name] == step and name in batches]
                for step in branch_steps()}
        work[EVALUATE] = [batch for name in group.items for batch in evaluations[name]]
        work[NEXT] = [name for name in group.following if name in found]
        if any(work.values()):
            found[key] = work
    followed = {name for group in grouped.values() for name in group.following}
    for names in evaluations.values():
        batches |= names
    write_output(folder, GROUPS, json.dumps(found))
    write_output(folder, BATCHES, json.dumps(batches))
    write_output(folder, f"run-{TREE}", json.dumps(list(batches.values())))
    write_output(folder, TREE, json.dumps([name for name in grouped if name in found and name not in followed]))
