"""Tasks of lm-eval by their names, in a suite of ours: they run as they are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, field
from typing import Any

from argosy.errors import InputError, StepError
from argosy.evaluation.findings import Findings
from argosy.statistics.intervals import Estimate
from evals.asked import reason
from evals.lm import ArgosyLM
from evals.lm_eval_load import load, why_not
from evals.named_rows import mark_group, right_metric, rows_of, variant_of
from evals.unscored import measured, scored

# Not OSError and RuntimeError: a full disk or a device that fails is no matter of a task.
_STOPS = (ArithmeticError, AssertionError, AttributeError, ConnectionError, ImportError, LookupError,
          NotImplementedError, TypeError, ValueError)  # fmt: skip


@dataclass
class Named:
    """Tasks by their names, and the groups of them."""

    tasks: dict[str, Any] = field(default_factory=dict)
    groups: dict[str, Any] = field(default_factory=dict)


def load_named(
    names: Sequence[str], include_path: str, findings: Findings, *, alone: bool, taken: Set[str] = frozenset()
) -> Named:
    """The tasks, with lm-eval's defaults. A name that cannot be loaded (lm-eval does not know it, its data cannot be
    fetched) has failed, and the others go on.

    Args:
        alone: whether nothing else is asked.
        taken: names that have metrics already.

    Raises:
        InputError: nothing else is asked, and lm-eval knows none of these names; or one of them, of a group's tasks
            too, is `taken`.
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
    if both := sorted(taken & {*found.tasks, *found.groups}):
        raise InputError(f"benchmarks: {both[0]} is both of `tasks` and of `lm_eval` ({', '.join(names)}): its metrics "
                         "would be one; leave it out of one of them, or give it another name in `tasks`")  # fmt: skip
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
    results = {name: _task(findings, lm, name, task, found) for name, task in named.tasks.items()}
    for name in found.get("groups", {}):
        _group(findings, name, named.groups[name], results)
    return findings


def _task(findings: Findings, lm: ArgosyLM, name: str, task: Any, found: Mapping[str, Any]) -> Mapping[str, Any]:
    """Collect what is known of a task, and give its results; {} where no answer has a score."""
    samples, left_out = scored(found["samples"][name], lm.language_model)
    for (filter_name, why), n in left_out.items():
        findings.leave_out(f"bench/{name}/{variant_of(filter_name)}", why, n)
    if lm.cut[name]:
        findings.cut[f"bench/{name}"] = lm.cut[name]
    if not samples:
        return {}
    results = measured(task, samples, found["results"][name]) if left_out else found["results"][name]
    _collect(findings, name, results)
    rows = rows_of(name, task, samples, results)
    findings.rows += rows
    # One form is its one number in comparisons: that of the task's first filter.
    if variant := next((row["variant"] for row in rows if "correct" in row), ""):
        findings.headline[name] = [variant]
    return results


def _group(findings: Findings, name: str, group: Any, results: Mapping[str, Mapping[str, Any]]) -> None:
    """Collect a group's metrics from the results of all its tasks."""
    names = {task.task_name for task in group.get_all_tasks()}
    if none := sorted(name for name, found in results.items() if name in names and not found):
        findings.fail(f"bench/{name}", f"no answer of its task {none[0]} has a score")
        return
    _collect(findings, name, group.aggregate(results))
    mark_group(findings.rows, name, group)


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
