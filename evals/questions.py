"""Questions of a suite: those of each task in each variant, and chosen ones made again."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from argosy.core.errors import ArgosyError, InputError, StepError
from argosy.evidence.results.findings import Findings, reason
from argosy.evidence.results.suite import Suite
from evals.chain import Chain, parse_chain
from evals.items import AnyItem
from evals.question import Pool, Question
from evals.section import Benchmarks
from evals.task import TaskSpec
from evals.task_sources import read_examples, read_task
from evals.variants import NotApplicable

Key = tuple[str, str, str]  # task, variant, id of the question


@dataclass(frozen=True)
class Task:
    """The items of a task and its chains of variants. `groups`: by item, the groups that metrics are also given for.
    `examples`: reads the items that the few-shot examples of a chain come from."""

    name: str
    items: list[AnyItem]
    chains: list[Chain]
    groups: Mapping[str, list[str]]
    examples: Callable[[Chain], list[AnyItem]]


@dataclass(frozen=True)
class Batch:
    """The questions of one task in one variant."""

    task: Task
    chain: Chain
    questions: list[Question]


def read_tasks(
    tasks: Mapping[str, TaskSpec], variants: Mapping[str, object], data: Path, limit: int | None, findings: Findings, *,
    alone: bool = True,
) -> list[Task]:
    """Read the items of all tasks. A task that cannot be read has failed, by name, and the others go on.

    `alone`: whether these are all the tasks that there are. Raises InputError: none of all tasks can be read, or a
    chain is wrong; StepError: the data of none of all tasks can be loaded."""
    chains = {task: [parse_chain(*each) for each in spec.chains(variants).items()] for task, spec in tasks.items()}
    found: list[Task] = []
    first: ArgosyError | None = None
    for name, spec in tasks.items():
        try:
            read = read_task(spec, data, limit)
        except (InputError, StepError) as error:
            first = first or error
            findings.fail(f"bench/{name}", reason(error), error)
            continue
        for why, n in read.left_out.items():
            findings.leave_out(f"bench/{name}", why, n)
        if read.warnings:
            findings.warnings[f"bench/{name}"] = "; ".join(read.warnings)
        findings.rejects += [{"task": name, "file": file, "record": number, "reason": why}
                             for file, number, why in read.rejects]  # fmt: skip
        groups = {item.id: spec.groups(item) for item in read.items}
        found.append(Task(name, read.items, chains[name], groups, partial(read_examples, spec, data)))
    if first and alone and not found:
        raise first
    return found


def make_questions(tasks: Sequence[Task], seed: int, findings: Findings) -> list[Batch]:
    """Make the questions of all tasks in all their variants. Items that cannot be asked in one are left out, and
    counted; a variant whose examples cannot be read has failed."""
    batches = []
    for task in tasks:
        for chain in task.chains:
            where = f"bench/{task.name}/{chain.name}"
            try:
                questions, left_out = chain.all_questions(task.items, seed, task.examples(chain))
            except (InputError, StepError) as error:
                findings.fail(where, reason(error), error)
                continue
            for why, n in left_out.items():
                findings.leave_out(where, why, n)
            if questions and chain.knowledge:
                findings.headline.setdefault(task.name, []).append(chain.name)
            if questions:
                batches.append(Batch(task, chain, questions))
    return batches


def remake_questions(
    suite: Suite, data: Path, seed: int, wanted: Iterable[Key], limit: int | None = None
) -> dict[Key, Question]:
    """Make chosen questions of an evaluation again, a function of the suite, the items and the seed; a task, variant
    or item that does not exist any more has none. `limit`: the evaluation's, since examples and other items'
    distractors depend on which items there were."""
    if suite.benchmarks is None:
        return {}
    section = suite.section("benchmarks", Benchmarks)
    names: dict[tuple[str, str], list[str]] = {}
    for task, variant, name in sorted(set(wanted)):
        if task in section.tasks and variant in section.tasks[task].chains(section.variants):
            names.setdefault((task, variant), []).append(name)
    items = {task: {item.id: item for item in _readable(partial(_items, section.tasks[task], data, limit))}
             for task, _ in names}  # fmt: skip
    found: dict[Key, Question] = {}
    for (task, variant), ids in names.items():
        spec, known = section.tasks[task], items[task]
        chain = parse_chain(variant, spec.chains(section.variants)[variant])
        pool = Pool(known.values(), _readable(partial(read_examples, spec, data, chain)))
        for name in dict.fromkeys(id if id in known else id.rpartition("#")[0] for id in ids):
            with suppress(NotApplicable):
                made = chain.questions(known[name], seed, pool) if name in known else []
                found |= {(task, variant, question.id): question for question in made}
    return found


def _items(spec: TaskSpec, data: Path, limit: int | None) -> list[AnyItem]:
    return read_task(spec, data, limit).items


def _readable(read: Callable[[], list[AnyItem]]) -> list[AnyItem]:
    try:
        return read()
    except (InputError, StepError):
        return []
