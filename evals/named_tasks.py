"""Tasks of lm-eval by their names, in a suite of ours: they run as they are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from argosy.errors import InputError, StepError
from argosy.evaluation.findings import Findings
from argosy.statistics.intervals import Estimate
from evals.asked import reason
from evals.lm import ArgosyLM
from evals.lm_eval_load import load, why_not
from evals.named_rows import right_metric, rows_of, variant_of

# Not OSError and RuntimeError: a full disk or a device that fails is no matter of a task.
_STOPS = (ArithmeticError, AssertionError, AttributeError, ConnectionError, ImportError, LookupError,
          NotImplementedError, TypeError, ValueError)  # fmt: skip


@dataclass
class Named:
    """Tasks by their names, and the groups of them."""

    tasks: dict[str, Any] = field(default_factory=dict)
    groups: dict[str, Any] = field(default_factory=dict)


def load_named(names: Sequence[str], include_path: str, findings: Findings, *, alone: bool) -> Named:
    """The tasks, with lm-eval's defaults. A name that cannot be loaded (lm-eval does not know it, its data cannot be
    fetched) has failed, and the others go on.

    Args:
        alone: whether nothing else is asked.

    Raises:
        InputError: nothing else is asked, and lm-eval knows none of these names.
        StepError: nothing else is asked, and none can be loaded.
    """
    found = Named()
    unknown = []
    for name in names:
        try:
            loaded = load(name, include_path)
            found.tasks |= loaded["tasks"]
            found.groups |= loaded.get("groups", {})
        except Exception as error:  # a task's own code and data decide what is raised
            why, is_unknown = why_not(name, error)
            unknown.append(is_unknown)
            findings.fail(f"bench/{name}", f"lm-eval cannot load it: {reason(why)}", error)
    if alone and names and not found.tasks:
        failed = "; ".join(f"{name}: {findings.failed[f'bench/{name}']}" for name in names)
        raise (InputError if all(unknown) else StepError)(f"suite: lm_eval: {failed}")
    return found


def run_named(lm: ArgosyLM, named: Named, *, chat: bool, limit: int | None) -> Findings:
    """What lm-eval's harness makes of them. Where it stops at one, each is run alone, and those that fail are named."""
    from lm_eval.evaluator import evaluate

    findings = Findings()
    if not named.tasks:
        return findings
    lm.cut.clear()
    chosen = {"tasks": dict(named.tasks), "groups": named.groups}
    try:
        found = evaluate(lm, chosen, limit=limit, bootstrap_iters=100, log_samples=True, apply_chat_template=chat)
    except _STOPS as error:
        if len(named.tasks) == 1:
            why = f"lm-eval stopped: {type(error).__name__}: {reason(error)}"
            findings.fail(f"bench/{next(iter(named.tasks))}", why, error)
            return findings
        for name, task in named.tasks.items():
            findings.merge(run_named(lm, Named({name: task}), chat=chat, limit=limit))
        return findings
    for name, task in named.tasks.items():
        _collect(findings, name, found["results"][name])
        rows = rows_of(name, task, found["samples"][name], found["results"][name])
        findings.rows += rows
        # One form is its one number in comparisons: that of the task's first filter.
        if variant := next((row["variant"] for row in rows if "correct" in row), ""):
            findings.headline[name] = [variant]
        if lm.cut[name]:
            findings.cut[f"bench/{name}"] = lm.cut[name]
    for name, results in found.get("groups", {}).items():
        _collect(findings, name, results)
    return findings


def _collect(findings: Findings, name: str, results: Mapping[str, Any]) -> None:
    """The metrics of a task or group; `acc` is given also where lm-eval calls it otherwise (exact_match)."""
    measured: dict[str, dict[str, Estimate]] = {}
    for key, value in results.items():
        metric, _, filter_name = key.partition(",")
        if not filter_name or metric.endswith("_stderr") or not isinstance(value, int | float):
            continue
        stderr = results.get(f"{metric}_stderr,{filter_name}")
        error = float(stderr) if isinstance(stderr, int | float) else float("nan")
        estimate = Estimate(float(value), error, int(results["sample_len"]))
        measured.setdefault(variant_of(filter_name), {})[metric] = estimate
    for variant, metrics in measured.items():
        right = right_metric(metrics)
        for metric, estimate in (({"acc": metrics[right]} if right else {}) | metrics).items():
            findings.add(f"bench/{name}/{variant}/{metric}", estimate)
