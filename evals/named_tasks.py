"""Tasks of lm-eval by their names, in a suite of ours."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Any

from argosy.errors import InputError, StepError
from argosy.evaluation.findings import Findings
from argosy.statistics.intervals import Estimate
from evals.asked import reason
from evals.lm import ArgosyLM

# Not OSError and RuntimeError: a full disk or a device that fails is no matter of a task.
_STOPS = (ArithmeticError, AssertionError, AttributeError, ConnectionError, ImportError, LookupError,
          NotImplementedError, TypeError, ValueError)  # fmt: skip


def load_named(names: Sequence[str], include_path: str, findings: Findings, *, alone: bool) -> dict[str, Any]:
    """The tasks, with lm-eval's defaults. A name that cannot be loaded (lm-eval does not know it, its data cannot be
    fetched) has failed, and the others go on.

    Args:
        alone: whether nothing else is asked.

    Raises:
        InputError: nothing else is asked, and lm-eval knows none of these names.
        StepError: nothing else is asked, and none can be loaded.
    """
    if not names:
        return {}
    from lm_eval.tasks import TaskManager

    logging.getLogger("lm_eval").setLevel(logging.ERROR)
    manager = TaskManager(include_path=include_path or None, include_defaults=True)
    tasks: dict[str, Any] = {}
    unknown = []
    for name in names:
        try:
            tasks |= manager.load([name])["tasks"]
        except Exception as error:  # a task's own code and data decide what is raised
            unknown.append(isinstance(error, KeyError) and name in str(error))
            why = str(error.args[0]) if unknown[-1] else f"{type(error).__name__}: {reason(error)}"
            findings.fail(f"bench/{name}", f"lm-eval cannot load it: {why}")
    if alone and not tasks:
        failed = "; ".join(f"{name}: {findings.failed[f'bench/{name}']}" for name in names)
        raise (InputError if all(unknown) else StepError)(f"suite: lm_eval: {failed}")
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
    if not tasks:
        return findings
    lm.cut.clear()
    try:
        results = dict(run(dict(tasks)))
    except _STOPS as error:
        if len(tasks) == 1:
            findings.fail(f"bench/{next(iter(tasks))}", f"lm-eval stopped: {type(error).__name__}: {reason(error)}")
            return findings
        for name, task in tasks.items():
            findings.merge(run_named(lm, {name: task}, chat=chat, limit=limit))
        return findings
    for name in tasks:
        _collect(findings, name, results[name])
        if lm.cut[name]:
            findings.cut[f"bench/{name}"] = lm.cut[name]
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
