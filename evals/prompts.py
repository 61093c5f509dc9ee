"""Questions of an evaluation made again: they are a function of the suite, the items and the seed."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from pathlib import Path

from argosy.errors import InputError
from argosy.evaluation.suite import Suite
from evals.items import Item
from evals.question import Question
from evals.runner import Benchmarks
from evals.task_spec import TaskSpec
from evals.variants import NotApplicable, parse_chain

Key = tuple[str, str, str]  # task, variant, id of the question


def questions(suite: Suite, data: Path, seed: int, wanted: Iterable[Key]) -> dict[Key, Question]:
    """Those of `wanted` that the suite makes; a task, variant or item that is not there any more has none.

    Raises:
        InputError: the suite's section is wrong.
    """
    if suite.benchmarks is None:
        return {}
    section = suite.section("benchmarks", Benchmarks)

    @cache
    def items(task: str) -> dict[str, Item]:
        return {item.id: item for item in _readable(section.tasks.get(task), data)}

    found: dict[Key, Question] = {}
    for task, variant, name in sorted(set(wanted)):
        item = items(task).get(name) or items(task).get(name.rpartition("#")[0])
        if item is None or variant not in section.variants or (task, variant, name) in found:
            continue
        try:
            made = parse_chain(variant, section.variants[variant]).questions(item, seed)
        except NotApplicable:
            continue
        found |= {(task, variant, question.id): question for question in made}
    return found


def _readable(spec: TaskSpec | None, data: Path) -> list[Item]:
    try:
        return spec.read(data).items if spec else []
    except InputError:
        return []
