"""Questions of an evaluation made again: they are a function of the suite, the items and the seed."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cache
from pathlib import Path

from argosy.errors import InputError, StepError
from argosy.evaluation.suite import Suite
from evals.items import AnyItem
from evals.pool import Pool
from evals.question import Question
from evals.runner import Benchmarks
from evals.variants import Chain, NotApplicable, parse_chain

Key = tuple[str, str, str]  # task, variant, id of the question


def questions(
    suite: Suite, data: Path, seed: int, wanted: Iterable[Key], limit: int | None = None
) -> dict[Key, Question]:
    """Those of `wanted` that the suite makes; a task, variant or item that is not there any more has none. `limit`:
    the evaluation's, since examples and other items' distractors depend on which items there were.

    Raises:
        InputError: the suite's section is wrong.
    """
    if suite.benchmarks is None:
        return {}
    section = suite.section("benchmarks", Benchmarks)

    @cache
    def items(task: str) -> dict[str, AnyItem]:
        spec = section.tasks.get(task)
        return {item.id: item for item in _readable(lambda: spec.read(data, limit).items if spec else [])}

    @cache
    def asked(task: str, variant: str) -> tuple[Chain, Pool] | None:
        spec = section.tasks.get(task)
        chains = spec.chains(section.variants) if spec else {}
        if spec is None or variant not in chains:
            return None
        chain = parse_chain(variant, chains[variant])
        return chain, Pool(items(task).values(), _readable(lambda: spec.pool(data, chain)))

    found: dict[Key, Question] = {}
    for task, variant, name in sorted(set(wanted)):
        item = items(task).get(name) or items(task).get(name.rpartition("#")[0])
        how = asked(task, variant)
        if item is None or how is None or (task, variant, name) in found:
            continue
        try:
            made = how[0].questions(item, seed, how[1])
        except NotApplicable:
            continue
        found |= {(task, variant, question.id): question for question in made}
    return found


def _readable(read: Callable[[], list[AnyItem]]) -> list[AnyItem]:
    try:
        return read()
    except (InputError, StepError):
        return []
