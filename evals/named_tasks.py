"""Tasks of lm-eval by their names, in a suite of ours."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Any

from argosy.errors import InputError
from argosy.evaluation.findings import Findings
from argosy.statistics.intervals import Estimate
from evals.asked import reason
from evals.lm import ArgosyLM


def load_named(names: Sequence[str], include_path: str) -> dict[str, Any]:
    """The tasks, with lm-eval's defaults.

    Raises:
        InputError: lm-eval knows no task of that name.
    """
    if not names:
        return {}
    from lm_eval.tasks import TaskManager

    logging.getLogger("lm_eval").setLevel(logging.ERROR)
    manager = TaskManager(include_path=include_path or None, include_defaults=True)
    try:
        tasks: dict[str, Any] = dict(manager.load(list(names))["tasks"])
    except KeyError as error:
        raise InputError(f"suite: lm_eval: {error.args[0]}") from None
    for task in tasks.values():
        if task.get_config("num_fewshot") is None:
            task.set_config("num_fewshot", 0)
        task.set_fewshot_seed(1234)  # lm-eval's default
    return tasks


def run_named(lm: ArgosyLM, tasks: dict[str, Any], *, chat: bool, limit: int | None) -> Findings:
    """What lm-eval's harness makes of them. Where it stops at one, each is run alone, and those that fail are named."""
    from lm_eval.evaluator import evaluate

    def run(chosen: dict[str, Any]) -> Mapping[str, Any]:
        found: Mapping[str, Any] = evaluate(lm, {"tasks": chosen}, limit=limit, bootstrap_iters=100, log_samples=False,
                                            apply_chat_template=chat)["results"]  # fmt: skip
        return found

    findings = Findings()
    try:
        results = dict(run(dict(tasks)))
    except (ArithmeticError, AssertionError, AttributeError, LookupError, TypeError, ValueError) as error:
        if len(tasks) == 1:
            findings.fail(f"bench/{next(iter(tasks))}", f"lm-eval stopped: {type(error).__name__}: {reason(error)}")
            return findings
        for name, task in tasks.items():
            findings.merge(run_named(lm, {name: task}, chat=chat, limit=limit))
        return findings
    for name in tasks:
        _collect(findings, name, results[name])
    return findings


def _collect(findings: Findings, name: str, results: Mapping[str, Any]) -> None:
    for key, value in results.items():
        metric, _, filter_name = key.partition(",")
        if not filter_name or metric.endswith("_stderr") or not isinstance(value, int | float):
            continue
        stderr = results.get(f"{metric}_stderr,{filter_name}")
        variant = "plain" if filter_name == "none" else filter_name
        error = float(stderr) if isinstance(stderr, int | float) else float("nan")
        findings.add(f"bench/{name}/{variant}/{metric}", Estimate(float(value), error, int(results["sample_len"])))
