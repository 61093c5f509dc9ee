"""Tasks of lm-eval by their names, in a suite of ours: they run as they are."""

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, field
from typing import Any

from argosy.core.errors import InputError, StepError
from argosy.core.statistics.intervals import Estimate
from argosy.core.statistics.metric import BITS, SHARE, Better, Metric, find, probability, share
from argosy.evidence.results.findings import Findings, reason
from evals.lm_eval.load import load, load_error
from evals.lm_eval.model import ArgosyLM
from evals.lm_eval.results import aggregate, mark_group, right_metric, rows_of, scored_samples, variant_of

# Not OSError and RuntimeError: a full disk or a device that fails is no matter of a task.
_STOPS = (ArithmeticError, AssertionError, AttributeError, ConnectionError, ImportError, LookupError,
          NotImplementedError, TypeError, ValueError)  # fmt: skip
# The scales of lm-eval's own metrics, of which its tasks declare the better direction alone; others are taken to be
# from 0 to 1, as most of them are.
_SCALES = {
    **dict.fromkeys(("acc", "acc_*", "*_acc", "exact_match", "em", "pass@*", "mc1"), share()),
    **dict.fromkeys(("bleu*", "rouge*", "chrf*", "ter"), Metric("neither", "points of 100", 1.0)),
    **dict.fromkeys(("bits_per_byte", "loglikelihood*"), Metric("neither", "", BITS)),
    "*perplexity": Metric("neither", "perplexity", 0.1),
}


@dataclass
class HarnessTasks:
    """Tasks of lm-eval by their names, and the groups of them."""

    tasks: dict[str, Any] = field(default_factory=dict)
    groups: dict[str, Any] = field(default_factory=dict)


def load_tasks(
    names: Sequence[str], include_path: str, findings: Findings, *, alone: bool, taken: Set[str] = frozenset()
) -> HarnessTasks:
    """Load tasks, with lm-eval's defaults. A name that cannot be loaded (lm-eval does not know it, its data cannot be
    fetched) has failed, and the others go on.

    `alone`: whether the suite has no other benchmarks. `taken`: names that have metrics already. Raises InputError:
    the suite has nothing else, and lm-eval knows none of these names; or one of them, or of a group's tasks, is
    `taken`; StepError: the suite has nothing else, and none can be loaded."""
    found = HarnessTasks()
    unknown = []
    for name in names:
        try:
            loaded = load(name, include_path)
            found.tasks |= loaded["tasks"]
            found.groups |= loaded.get("groups", {})
        except Exception as error:  # a task's own code and data decide what is raised
            why, is_unknown = load_error(name, error)
            unknown.append(is_unknown)
            findings.fail(f"bench/{name}", f"lm-eval cannot load it: {reason(why)}", error)
    if both := sorted(taken & {*found.tasks, *found.groups}):
        raise InputError(f"benchmarks: {both[0]} is both of `tasks` and of `lm_eval` ({', '.join(names)}): its metrics "
                         "would be one; leave it out of one of them, or give it another name in `tasks`")  # fmt: skip
    if alone and names and not found.tasks:
        failed = "; ".join(f"{name}: {findings.failed[f'bench/{name}']}" for name in names)
        raise (InputError if all(unknown) else StepError)(f"suite: lm_eval: {failed}")
    return found


def run_tasks(lm: ArgosyLM, chosen: HarnessTasks, *, chat: bool, limit: int | None) -> Findings:
    """Run tasks in lm-eval's harness. Where it stops at one, each is run alone, and those that fail are named, with the
    groups that need them."""
    findings = Findings()
    results, groups = _run(findings, lm, chosen, chat, limit)
    for name in groups:
        _group(findings, name, chosen.groups[name], results)
    return findings


def _run(
    findings: Findings, lm: ArgosyLM, chosen: HarnessTasks, chat: bool, limit: int | None
) -> tuple[dict[str, Mapping[str, Any]], list[str]]:
    """Collect the results of the tasks that do not fail; returns them, and the groups that have metrics."""
    from lm_eval.evaluator import evaluate

    if not chosen.tasks:
        return {}, []
    lm.cut.clear()
    both = {"tasks": dict(chosen.tasks), "groups": chosen.groups}
    try:
        found = evaluate(lm, both, limit=limit, bootstrap_iters=100, log_samples=True, apply_chat_template=chat)
    except _STOPS as error:
        if len(chosen.tasks) == 1:
            why = f"lm-eval stopped: {type(error).__name__}: {reason(error)}"
            findings.fail(f"bench/{next(iter(chosen.tasks))}", why, error)
            return {}, []
        alone = (_run(findings, lm, HarnessTasks({name: task}), chat, limit) for name, task in chosen.tasks.items())
        results = {name: result for each, _ in alone for name, result in each.items()}
        return results, [name for name, group in chosen.groups.items() if group.has_aggregation]
    results = {name: _task(findings, lm, name, task, found) for name, task in chosen.tasks.items()}
    return results, list(found.get("groups", {}))


def _task(findings: Findings, lm: ArgosyLM, name: str, task: Any, found: Mapping[str, Any]) -> Mapping[str, Any]:
    """Collect the metrics and rows of a task, and return its results; {} where no answer has a score."""
    samples, left_out = scored_samples(found["samples"][name], lm.language_model)
    for (filter_name, why), n in left_out.items():
        findings.leave_out(f"bench/{name}/{variant_of(filter_name)}", why, n)
    if lm.cut[name]:
        findings.cut[f"bench/{name}"] = lm.cut[name]
    if not samples:
        return {}
    results = aggregate(task, samples, found["results"][name]) if left_out else found["results"][name]
    _collect(findings, name, results, task.higher_is_better())
    rows = rows_of(name, task, samples, results)
    findings.rows += rows
    # One form is its one number in comparisons: that of the task's first filter.
    if variant := next((row["variant"] for row in rows if "correct" in row), ""):
        findings.headline[name] = [variant]
    return results


def _group(findings: Findings, name: str, group: Any, results: Mapping[str, Mapping[str, Any]]) -> None:
    """Collect a group's metrics from the results of all its tasks."""
    tasks = {task.task_name: task for task in group.get_all_tasks()}
    if failed := sorted(tasks.keys() - results.keys()):
        findings.fail(f"bench/{name}", f"its task {failed[0]} failed")
        return
    if none := sorted(name for name, found in results.items() if name in tasks and not found):
        findings.fail(f"bench/{name}", f"no answer of its task {none[0]} has a score")
        return
    higher = {metric: is_higher for task in tasks.values() for metric, is_higher in task.higher_is_better().items()}
    _collect(findings, name, group.aggregate(results), higher)
    mark_group(findings.rows, name, group)


def _collect(
    findings: Findings, name: str, results: Mapping[str, Any], higher_is_better: Mapping[str, bool | None]
) -> None:
    """Add the metrics of a task or group; `acc` is given also where lm-eval calls it otherwise (exact_match)."""
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
        if (right := right_metric(metrics)) and right != "acc":
            findings.add(f"bench/{name}/{variant}/acc", metrics[right], kind_of(right, higher_is_better))
        for metric, estimate in metrics.items():
            findings.add(f"bench/{name}/{variant}/{metric}", estimate, kind_of(metric, higher_is_better))


def kind_of(metric: str, higher_is_better: Mapping[str, bool | None]) -> Metric:
    """Take over the direction that a task of lm-eval declares for its metric; none where it declares none."""
    scale = find(metric, _SCALES) or probability()
    is_higher = higher_is_better.get(metric)
    better: Better = "neither" if is_higher is None else "higher" if is_higher else "lower"
    return Metric(better, scale.unit, scale.matters, minor=metric == "acc_bytes" and scale.unit == SHARE)
