"""The `benchmarks` section of a suite: its validation before a model is loaded, and the questions that it asks."""

import os
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from fnmatch import fnmatch
from functools import partial
from pathlib import Path
from typing import Any

from pydantic import Field, model_validator

from argosy.core.config.explain import grouped
from argosy.core.config.schema import Config
from argosy.core.errors import ArgosyError, InputError, StepError
from argosy.core.statistics.decisions import items_needed, minimum_detectable_effect, paired_stderr
from argosy.evidence.results.findings import Findings, reason
from argosy.evidence.results.headline import BY_CHARACTER
from argosy.evidence.results.suite import ROOT, NoFileError, Suite, check_names, load_suite
from evals.chain import Chain, parse_chain
from evals.formats import find_format
from evals.items import AnyItem
from evals.question import Pool, Question
from evals.task import TaskSpec, read_examples, read_task, use_hub
from evals.variants import NotApplicable


class Memorisation(Config):
    """The `memorisation` section of a suite's benchmarks."""

    k: int = Field(3, ge=1)
    """Number of other orders that an item is compared with: up to one for each other place of its right option."""


class Benchmarks(Config):
    """The `benchmarks` section of a suite."""

    tasks: dict[str, TaskSpec] = Field(default_factory=dict)
    """Tasks by name: files of items, or the fields of `evals.task.TaskSpec`."""
    variants: dict[str, Any] = Field(default_factory=lambda: {"plain": None})
    """Chains of variants by name; nothing: the variant of that name."""
    memorisation: Memorisation | None = None
    """Compare the published order of options with `k` others."""
    lm_eval: tuple[str, ...] = ()
    """Names of further tasks of lm-eval, which run as they are."""
    include_path: str = ""
    """A folder with YAML of one's own tasks for lm-eval, beside the suite or absolute."""

    @model_validator(mode="before")
    @classmethod
    def _include_path_of_tasks(cls, values: Any) -> Any:
        """Give tasks of lm-eval that name no folder of YAML the section's."""
        tasks = values.get("tasks") if isinstance(values, Mapping) else None
        if not isinstance(tasks, Mapping) or not (path := values.get("include_path")):
            return values
        with_path = {name: {"include_path": path, **spec} if isinstance(spec, Mapping) and "lm_eval" in spec else spec
                     for name, spec in tasks.items()}  # fmt: skip
        return {**values, "tasks": with_path}


def check_benchmarks(section: Benchmarks, suite: str) -> None:
    """Validate the section, except for its files: a task whose files are absent does not stop the others.

    Raises InputError: no task, a name that metrics cannot have, an unknown variant or format, a variant's wrong
    parameter, a task without a variant, or a folder of lm-eval's YAML that does not exist."""
    where = f"suite {suite}, benchmarks"
    if not section.tasks and not section.lm_eval:
        raise InputError(f"{where} asks nothing: give tasks, or names of lm-eval's own as lm_eval")
    check_names(section.tasks, f"{where}.tasks")
    for name, spec in section.tasks.items():
        _check_task(spec, section.variants, f"{where}.tasks.{name}")
    if section.lm_eval:
        _check_folder(section.include_path, where)


def _check_task(spec: TaskSpec, variants: Mapping[str, Any], where: str) -> None:
    chains = spec.chains(variants)
    check_names(chains, f"{where}, variants")
    check_names(spec.categories, f"{where}.categories")
    if not chains:
        raise InputError(f"{where}.only is {', '.join(spec.only or ())}, and the suite's variants are "
                         f"{', '.join(variants)}: none is left")  # fmt: skip
    for name, chain in chains.items():
        try:
            parse_chain(name, chain)
        except InputError as error:
            raise InputError(f"{where}, variants.{name}: {error}") from None
    if spec.format:
        try:
            find_format(spec.format)
        except InputError as error:
            raise InputError(f"{where}.format: {error}") from None
    if spec.lm_eval:
        _check_folder(spec.include_path, where)


def _check_folder(path: str, where: str) -> None:
    if path and not Path(path).is_dir():
        raise InputError(f"{where}.include_path: there is no folder {path}; give one that has YAML of lm-eval's tasks, "
                         "beside the suite or absolute")  # fmt: skip


def questions(suites: Iterable[str], made: Collection[str]) -> tuple[list[dict[str, Any]], dict[str, str]]:
    """List what the benchmarks of suites (paths of YAML) ask, as {"id", "suite", "question", "choices"}, the suite
    being the task's name, for decontamination, and why some tasks cannot be listed: those of lm-eval and of a hub are
    not loaded here, and files may be absent.

    made: files of the data step, whose items the caller has. Raises InputError: a suite is wrong."""
    found: list[dict[str, Any]] = []
    not_listed: dict[str, str] = {}
    for file in suites:
        suite = load_suite(os.path.abspath(file))
        section = suite.section("benchmarks", Benchmarks) if suite.benchmarks else Benchmarks()
        not_listed |= dict.fromkeys(section.lm_eval, "it is a task of lm-eval")
        for name, spec in section.tasks.items():
            if spec.lm_eval or use_hub(spec):
                not_listed[name] = "it is a task of lm-eval" if spec.lm_eval else "its items are on a hub"
            elif not any(fnmatch(there, pattern) for pattern in spec.files for there in made):
                try:
                    items = read_task(spec, Path(os.devnull)).items
                except NoFileError:
                    not_listed[name] = f"no file {' or '.join(spec.files)} (set {ROOT} to the folder that has it)"
                except InputError as error:
                    not_listed[name] = str(error)
                else:
                    found += [{"id": item.id, "suite": name, "question": item.question,
                               "choices": getattr(item, "choices", ())} for item in items]
    return found, not_listed


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
    optional: bool = False


@dataclass(frozen=True)
class Batch:
    """The questions of one task in one variant."""

    task: Task
    chain: Chain
    questions: list[Question]

    @property
    def published(self) -> bool:
        """Whether the answer is a label in its published place, which a model may have memorised."""
        return self.questions[0].labelled and not any(each.independent for each in self.chain.variants)

    @property
    def in_words(self) -> bool:
        """Whether an answer is the likeliest of different texts, whose lengths count."""
        return any(not (each.labelled or each.prompts or each.generation) for each in self.questions)

    def is_moved(self, other: "Batch") -> bool:
        """Whether `other` asks the same in another order or with other labels: the headline has it in place of this."""
        written, theirs = (each.questions[0].generation is not None for each in (self, other))
        return (other.task is self.task and other.chain.knowledge and other.questions[0].labelled
                and not other.published and written == theirs)


def read_tasks(tasks: Mapping[str, TaskSpec], variants: Mapping[str, object], data: Path, limit: int | None,
               findings: Findings, *, alone: bool = True, learning: bool = False) -> list[Task]:
    """Read the items of all tasks. A task that cannot be read has failed, by name, and the others go on.

    `alone`: whether these are all the tasks that there are. `learning`: with the chains that copies of the checkpoint
    learn for, and the tasks that have some, in place of all others.

    Raises InputError: none of all tasks can be read, or a chain is wrong; StepError: none of all tasks' data loads."""
    every = {task: [parse_chain(*each) for each in spec.chains(variants).items()] for task, spec in tasks.items()}
    chains = {task: [chain for chain in some if bool(chain.learning) == learning] for task, some in every.items()}
    found: list[Task] = []
    first: ArgosyError | None = None
    for name, spec in tasks.items() if not learning else [each for each in tasks.items() if chains[each[0]]]:
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
        found.append(Task(name, read.items, chains[name], groups, partial(read_examples, spec, data), spec.optional))
    if first and alone and not any(task.items for task in found):
        raise first
    return found


def make_questions(tasks: Sequence[Task], seed: int, findings: Findings) -> list[Batch]:
    """Make the questions of all tasks in all their variants. Items that cannot be asked in one are left out, and
    counted; a variant whose examples cannot be read has failed, or is left out where the task is optional."""
    batches = []
    for task in tasks:
        for chain in task.chains:
            where = f"bench/{task.name}/{chain.name}"
            try:
                questions, left_out = chain.all_questions(task.items, seed, task.examples(chain))
            except (InputError, StepError) as error:
                if task.optional and isinstance(error, NoFileError):
                    findings.leave_out(where, str(error), len(task.items))
                else:
                    findings.fail(where, reason(error), error)
                continue
            for why, n in left_out.items():
                findings.leave_out(where, why, n)
            if questions:
                batches.append(Batch(task, chain, questions))
    for batch in batches:
        if batch.chain.knowledge and not (batch.published and any(batch.is_moved(other) for other in batches)):
            forms = [batch.chain.name, *([f"{batch.chain.name}/{BY_CHARACTER}"] if batch.in_words else [])]
            findings.headline.setdefault(batch.task.name, []).extend(forms)
    return batches


CORRELATION = 0.6  # of right answers of two checkpoints of one line, over items
LARGE = 0.05  # of a difference that a sample should show


def describe_samples(batches: Iterable[Batch]) -> Iterator[str]:
    """Yield a line for each task whose items are too few to tell two checkpoints apart that differ by LARGE, before any
    of them is asked: the difference that they could show in 4 of 5 comparisons, of accuracies near one half."""
    for task in {id(batch.task): batch.task for batch in batches}.values():
        n = len({getattr(item, "cluster", "") or item.id for item in task.items})
        least = minimum_detectable_effect(paired_stderr(0.5, 0.5, CORRELATION, n))
        if least > LARGE:
            needed = items_needed(LARGE, 0.5, CORRELATION)
            yield (f"bench/{task.name}: {n} independent items can show a difference of {100 * least:.0f} points or "
                   f"more between two checkpoints; {needed:,} would show {100 * LARGE:.0f}")


def remake_questions(suite: Suite, data: Path, seed: int, wanted: Iterable[Key], limit: int | None = None,
                     tell: Callable[[str], object] = len) -> dict[Key, Question]:
    """Make chosen questions of an evaluation again, a function of the suite, the items and the seed; a task, variant
    or item that does not exist any more has none. `limit`: the evaluation's, since examples and other items'
    distractors depend on which items there were. `tell`: takes the reason why the items of a task cannot be read."""
    if suite.benchmarks is None:
        return {}
    section = suite.section("benchmarks", Benchmarks)
    names = grouped(((task, variant), name) for task, variant, name in sorted(set(wanted))
                    if task in section.tasks and variant in section.tasks[task].chains(section.variants))
    items = {task: {item.id: item for item in _readable(partial(_items, section.tasks[task], data, limit), tell)}
             for task, _ in names}  # fmt: skip
    found: dict[Key, Question] = {}
    for (task, variant), ids in names.items():
        spec, known = section.tasks[task], items[task]
        chain = parse_chain(variant, spec.chains(section.variants)[variant])
        pool = Pool(known.values(), _readable(partial(read_examples, spec, data, chain), tell))
        for name in dict.fromkeys(id if id in known else id.rpartition("#")[0] for id in ids):
            with suppress(NotApplicable):
                made = chain.questions(known[name], seed, pool) if name in known else []
                found |= {(task, variant, question.id): question for question in made}
    return found


def _items(spec: TaskSpec, data: Path, limit: int | None) -> list[AnyItem]:
    return read_task(spec, data, limit).items


def _readable(read: Callable[[], list[AnyItem]], tell: Callable[[str], object]) -> list[AnyItem]:
    try:
        return read()
    except (InputError, StepError) as error:
        tell(str(error))
        return []
