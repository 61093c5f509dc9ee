"""The questions of an lm-eval task of ours, from the `metadata` of its YAML and command line."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from argosy.errors import InputError
from argosy.evaluation.suite import load_suite
from evals.items import AnyItem
from evals.question import Question
from evals.task_spec import TaskSpec
from evals.variants import Chain, parse_chain

SUITES = Path(__file__).parent / "suites"
_FIELDS = ("format", "shots", "lang", "subject", "encoding", "index_from", "lm_eval", "include_path")


def questions(name: str, about: Mapping[str, Any]) -> tuple[list[Question], Counter[str]]:
    """Questions, and how many items were left out for which reason.

    Args:
        name: of the lm-eval task.
        about: `suite` (a name in evals/suites, or a YAML), its task where it has several, or `items` (a file or
            several, with `format` and other fields of TaskSpec), or `lm_eval` (a task of lm-eval's own); `variant`
            (one of that suite's, or a chain), `data`, `seed`, `limit` (items of each file), `category` (one of the
            task's).

    Raises:
        InputError: neither is given, or something is wrong with it.
    """
    spec, variants = _task(name, about)
    data = Path(about.get("data") or ".").expanduser()
    found = spec.read(data, about.get("limit"))
    items = _in_category(name, found.items, spec, about.get("category"))
    chain = _chain(name, about.get("variant", "plain"), variants)
    made, unmade = chain.all_questions(items, int(about.get("seed", 0)), spec.pool(data, chain))
    if not made:
        raise InputError(f"task {name}: no item can be asked in this variant: {dict(found.left_out + unmade)}")
    return made, found.left_out + unmade


def _task(name: str, about: Mapping[str, Any]) -> tuple[TaskSpec, Mapping[str, Any]]:
    if about.get("items") or about.get("lm_eval"):
        fields = {field: about[field] for field in _FIELDS if field in about}
        items = about.get("items", [])
        return TaskSpec.model_validate({"files": [items] if isinstance(items, str) else items, **fields}), {}
    if not about.get("suite"):
        raise InputError(f"task {name}: give its items: --metadata '{{\"items\": \"FILE.jsonl\"}}', or a suite, or "
                         "lm_eval (a task of its own)")  # fmt: skip
    from evals.runner import Benchmarks

    given = str(about["suite"])
    suite = load_suite(given, given if given.endswith((".yaml", ".yml")) else "", [SUITES])
    section = suite.section("benchmarks", Benchmarks)
    wanted = str(about.get("task") or next(iter(section.tasks), ""))
    if wanted not in section.tasks:
        raise InputError(f"task {name}: suite {given} has no task {wanted!r}; it has {', '.join(section.tasks)}")
    return section.tasks[wanted], section.tasks[wanted].chains(section.variants)


def _chain(name: str, variant: Any, variants: Mapping[str, Any]) -> Chain:
    if isinstance(variant, str) and variant in variants:
        return parse_chain(variant, variants[variant])
    return parse_chain(name, variant)


def _in_category(name: str, items: list[AnyItem], spec: TaskSpec, category: Any) -> list[AnyItem]:
    if not category:
        return items
    if category not in spec.categories:
        known = ", ".join(spec.categories) or "none"
        raise InputError(f"task {name}: category is {category!r}; its task has {known}")
    return [item for item in items if category in spec.groups(item)]
