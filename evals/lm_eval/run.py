"""Tasks of lm-eval in a suite of ours, which run as they are: our scorer is their model."""

import json
from collections import Counter
from collections.abc import Hashable, Mapping, Sequence, Set
from typing import Any

from lm_eval.api.instance import Instance
from lm_eval.api.model import LM

from argosy.core.config.explain import grouped
from argosy.core.errors import InputError, StepError
from argosy.core.statistics.intervals import Estimate
from argosy.core.statistics.metric import BITS, SHARE, Better, Metric, find, probability, share
from argosy.evidence.results.findings import Findings, reason
from argosy.model.infer.model import LanguageModel, Pair
from argosy.model.infer.scorer import Fit
from evals.lm_eval import load, load_error
from evals.lm_eval.results import aggregate, mark_group, option_items, right_metric, rows_of, scored_samples, variant_of


class ArgosyLM(LM):  # type: ignore[misc]
    """lm-eval's LM over a LanguageModel: all requests of all tasks at once, sorted, with shared contexts.

    `also`: further (context, continuation) pairs, and the item of each, that are scored with the first requests; the
    model knows them then.
    `seed`: of what tasks with `do_sample` generate: a sample depends on it, its prompt and its place among the prompts
    of equal settings, as `LanguageModel.generate_tokens` says.
    `cut`: by task, requests that are longer than the model, of which it sees the end (as with HFLM)."""

    def __init__(self, model: LanguageModel, also: Sequence[Pair] = (), items: Sequence[Hashable] = (),
                 seed: int = 0) -> None:
        super().__init__()
        self.language_model, self._seed = model, seed
        self._also = list(also), list(items)
        self.cut: Counter[str] = Counter()

    def loglikelihood(self, requests: Sequence[Instance]) -> list[tuple[float, bool]]:
        """Score each continuation: (log-probability, is greedy)."""
        pairs = [request.args for request in requests]
        items = option_items(pairs, [(r.task_name, r.doc_id) if r.doc_id is not None else n
                                     for n, r in enumerate(requests)])  # fmt: skip
        (also, their_items), self._also = self._also, ([], [])
        scores = self.language_model.loglikelihood([*pairs, *also], [*items, *their_items])
        fits = self.language_model.fit(pairs, items)
        self.cut.update(str(r.task_name) for r, fit in zip(requests, fits, strict=True) if fit is Fit.CUT)
        return [(score.logprob, score.greedy) for score in scores[: len(pairs)]]

    def loglikelihood_rolling(self, requests: Sequence[Instance]) -> list[float]:
        scores = self.language_model.text_loglikelihood([request.args[0] for request in requests])
        return [score.logprob for score in scores]

    def generate_until(self, requests: Sequence[Instance]) -> list[str]:
        """Generate up to a stop text, as the task's `generation_kwargs` say (greedy unless do_sample), those of equal
        settings together."""
        found: dict[int, str] = {}
        groups = grouped((json.dumps(request.args[1], sort_keys=True), index) for index, request in enumerate(requests))
        for settings, chosen in groups.items():
            prompts, options = [requests[index].args[0] for index in chosen], json.loads(settings)
            fits = self.language_model.has_room(prompts, _new_tokens(options))
            self.cut.update(str(requests[i].task_name) for i, fits_in in zip(chosen, fits, strict=True) if not fits_in)
            found |= dict(zip(chosen, self._generate(prompts, options), strict=True))
        return [found[index] for index in range(len(requests))]

    def _generate(self, prompts: list[str], options: dict[str, Any]) -> list[str]:
        stops = options.get("until") or []
        stops = [stops] if isinstance(stops, str) else [stop for stop in stops if stop]
        new_tokens = _new_tokens(options)
        if new_tokens >= self.language_model.max_length:
            raise ValueError(f"max_gen_toks is {new_tokens}, and the model has {self.language_model.max_length} "
                             "positions: there is none for the prompt")
        if not options.get("do_sample"):
            return self.language_model.generate(prompts, stops, new_tokens)
        sampling: dict[str, Any] = {key: options[key] for key in ("temperature", "top_k", "top_p") if key in options}
        return self.language_model.generate(
            prompts, stops, new_tokens, **{"temperature": 1.0, "seed": self._seed, **sampling})

    @property
    def tokenizer_name(self) -> str:
        """For lm-eval's cache of requests."""
        return str(self.language_model.tokenizer.name_or_path).replace("/", "__")

    def chat_template(self, chat_template: bool | str = False) -> str:
        return str(self.language_model.tokenizer.chat_template or "")

    def apply_chat_template(self, chat_history: list[dict[str, str]], add_generation_prompt: bool = True) -> str:
        return self.language_model.render(chat_history, add_generation_prompt)


def _new_tokens(options: dict[str, Any]) -> int:
    return int(options.get("max_gen_toks", 256))  # lm-eval's default


# Not OSError and RuntimeError: a full disk or a device that fails is no matter of a task.
_STOPS = (ArithmeticError, AssertionError, AttributeError, ConnectionError, ImportError, LookupError,
          NotImplementedError, TypeError, ValueError)  # fmt: skip
# The scales of lm-eval's own metrics, of which its tasks declare the better direction alone; others are taken to be
# from 0 to 1, as most of them are.
_SCALES = {
    **dict.fromkeys(("acc", "acc_*", "*_acc", "exact_match", "em", "pass@*", "mc1"), share()),
    **dict.fromkeys(("bleu*", "rouge*", "chrf*", "ter"), Metric("neither", "points of 100", 1.0)),
    **dict.fromkeys(("bits_per_byte", "loglikelihood*"), Metric("neither", "", BITS)),
    "*perplexity": Metric("neither", "perplexity", 0.1)}


Loaded = Mapping[str, dict[str, Any]]  # `tasks` and `groups` of them by name, as lm-eval has both


def load_tasks(names: Sequence[str], include_path: str, findings: Findings, *, alone: bool,
               taken: Set[str] = frozenset()) -> Loaded:
    """Load tasks, with lm-eval's defaults. A name that cannot be loaded (lm-eval does not know it, its data cannot be
    fetched) has failed, and the others go on.

    `alone`: whether the suite has no other benchmarks. `taken`: names that have metrics already. Raises InputError:
    the suite has nothing else, and lm-eval knows none of these names; or one of them, or of a group's tasks, is
    `taken`; StepError: the suite has nothing else, and none can be loaded."""
    found: Loaded = {"tasks": {}, "groups": {}}
    unknown = []
    for name in names:
        try:
            loaded = load(name, include_path)
            found["tasks"].update(loaded["tasks"])
            found["groups"].update(loaded.get("groups", {}))
        except Exception as error:  # a task's own code and data decide what is raised
            why, is_unknown = load_error(name, error)
            unknown.append(is_unknown)
            findings.fail(f"bench/{name}", f"lm-eval cannot load it: {reason(why)}", error)
    if both := sorted(taken & {*found["tasks"], *found["groups"]}):
        raise InputError(f"benchmarks: {both[0]} is both of `tasks` and of `lm_eval` ({', '.join(names)}): its metrics "
                         "would be one; leave it out of one of them, or give it another name in `tasks`")  # fmt: skip
    if alone and names and not found["tasks"]:
        failed = "; ".join(f"{name}: {findings.failed[f'bench/{name}']}" for name in names)
        raise (InputError if all(unknown) else StepError)(f"suite: lm_eval: {failed}")
    return found


def run_tasks(lm: ArgosyLM, chosen: Loaded, *, chat: bool, limit: int | None) -> Findings:
    """Run tasks in lm-eval's harness. Where it stops at one, each is run alone, and those that fail are named, with the
    groups that need them."""
    findings = Findings()
    results, groups = _run(findings, lm, chosen, chat, limit)
    for name in groups:
        _group(findings, name, chosen["groups"][name], results)
    return findings


def _run(findings: Findings, lm: ArgosyLM, chosen: Loaded, chat: bool,
         limit: int | None) -> tuple[dict[str, Mapping[str, Any]], list[str]]:
    """Collect the results of the tasks that do not fail; returns them, and the groups that have metrics."""
    from lm_eval.evaluator import evaluate

    tasks, groups = chosen["tasks"], chosen["groups"]
    if not tasks:
        return {}, []
    lm.cut.clear()
    try:
        found = evaluate(lm, {"tasks": dict(tasks), "groups": groups}, limit=limit, bootstrap_iters=100,
                         log_samples=True, apply_chat_template=chat)
    except _STOPS as error:
        if len(tasks) == 1:
            why = f"lm-eval stopped: {type(error).__name__}: {reason(error)}"
            findings.fail(f"bench/{next(iter(tasks))}", why, error)
            return {}, []
        alone = (_run(findings, lm, {"tasks": {name: task}, "groups": {}}, chat, limit) for name, task in tasks.items())
        results = {name: result for each, _ in alone for name, result in each.items()}
        return results, [name for name, group in groups.items() if group.has_aggregation]
    results = {name: _task(findings, lm, name, task, found) for name, task in tasks.items()}
    return results, list(found.get("groups", {}))


def _task(findings: Findings, lm: ArgosyLM, name: str, task: Any, found: Mapping[str, Any]) -> Mapping[str, Any]:
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


def _collect(findings: Findings, name: str, results: Mapping[str, Any],
             higher_is_better: Mapping[str, bool | None]) -> None:
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
