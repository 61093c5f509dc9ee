"""What a suite asks: the questions of each task in each variant, and what is wrong with those that cannot be asked."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from argosy.errors import ArgosyError, InputError, StepError
from argosy.evaluation.findings import Findings
from evals.items import AnyItem
from evals.question import Question
from evals.task_spec import TaskSpec
from evals.variants import Chain, parse_chain

_FOLDERS = re.compile(r"(?<![\w.:/])/(?:[^\s/:;,'\"()]+/)+")


@dataclass(frozen=True)
class Asked:
    """The questions of one task in one variant. groups: by item, what metrics are also given for."""

    task: str
    variant: str
    questions: list[Question]
    groups: Mapping[str, list[str]]


@dataclass(frozen=True)
class Task:
    """A task's items. `pool`: what the examples of a chain come from."""

    name: str
    items: list[AnyItem]
    chains: list[Chain]
    groups: Mapping[str, list[str]]
    pool: Callable[[Chain], list[AnyItem]]


def read_tasks(
    tasks: Mapping[str, TaskSpec],
    variants: Mapping[str, object],
    data: Path,
    limit: int | None,
    findings: Findings,
    *,
    alone: bool = True,
) -> list[Task]:
    """Items of all tasks. A task that cannot be read has failed, by name, and the others go on.

    Args:
        alone: whether nothing else is asked.

    Raises:
        InputError: nothing else is asked and none can be read, or a chain is wrong.
        StepError: nothing else is asked, and the data of none can be loaded.
    """
    chains = {task: [parse_chain(*each) for each in spec.chains(variants).items()] for task, spec in tasks.items()}
    found: list[Task] = []
    first: ArgosyError | None = None
    for name, spec in tasks.items():
        try:
            read = spec.read(data, limit)
        except (InputError, StepError) as error:
            first = first or error
            findings.fail(f"bench/{name}", reason(error), error)
            continue
        for why, n in read.left_out.items():
            findings.leave_out(f"bench/{name}", why, n)
        findings.rejects += [{"task": name, "file": file, "record": number, "reason": why}
                             for file, number, why in read.rejects]  # fmt: skip
        groups = {item.id: spec.groups(item) for item in read.items}
        found.append(Task(name, read.items, chains[name], groups, partial(spec.pool, data)))
    if first and alone and not found:
        raise first
    return found


def ask(tasks: Sequence[Task], seed: int, findings: Findings) -> list[Asked]:
    """Questions of all tasks in all their variants. What cannot be made of an item is left out, and counted; a
    variant whose examples cannot be read has failed."""
    asked = []
    for task in tasks:
        for chain in task.chains:
            where = f"bench/{task.name}/{chain.name}"
            try:
                questions, unmade = chain.all_questions(task.items, seed, task.pool(chain))
            except (InputError, StepError) as error:
                findings.fail(where, reason(error), error)
                continue
            for why, n in unmade.items():
                findings.leave_out(where, why, n)
            if questions and chain.knowledge:
                findings.headline.setdefault(task.name, []).append(chain.name)
            if questions:
                asked.append(Asked(task.name, chain.name, questions, task.groups))
    return asked


def reason(error: Exception | str) -> str:
    """What an error says, files without their folders: results of two machines are equal."""
    return _FOLDERS.sub("", str(error))
