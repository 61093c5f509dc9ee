"""What of a suite's benchmarks can be seen to be wrong before a model is loaded."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from argosy.errors import InputError
from argosy.evaluation.suite import check_names
from evals.formats import find_format
from evals.runner import Benchmarks
from evals.task_spec import TaskSpec
from evals.variants import parse_chain


def check_benchmarks(section: Benchmarks, suite: str) -> None:
    """Raise for what is wrong of it, but for files: a task whose files are absent does not stop the others.

    Raises:
        InputError: nothing is asked, a name that metrics cannot have, an unknown variant or format, a variant's wrong
            parameter, a task that is asked in no variant, or a folder of lm-eval's YAML that is not there.
    """
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
