"""The `benchmarks` section of a suite, and its validation before a model is loaded."""

import os
from collections.abc import Collection, Iterable, Mapping
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

from pydantic import Field, model_validator

from argosy.core.config.schema import Config
from argosy.core.errors import InputError
from argosy.evidence.results.suite import ROOT, NoFileError, check_names, load_suite
from evals.chain import parse_chain
from evals.formats import find_format
from evals.memorisation import Memorisation
from evals.task import TaskSpec
from evals.task_sources import read_task, use_hub


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
