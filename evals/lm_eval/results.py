"""Results of lm-eval's harness: samples that have a score, and rows in the shape that ours have."""

import math
from collections import Counter
from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Any

from argosy.evidence.results.items import digest
from argosy.model.infer.model import LanguageModel, Pair
from argosy.model.infer.rows import JOINED, NO_NUMBER, TOO_LONG
from argosy.model.infer.scorer import Fit
from evals.answers import OTHER_ANSWER
from evals.lm_eval import rights_of
from evals.records import language_of

Row = dict[str, Any]
Sample = Mapping[str, Any]
_RIGHT = ("acc", "exact_match", "em", "pass@1")  # the first that a task has says whether an answer is right


def variant_of(filter_name: str) -> str:
    return "plain" if filter_name == "none" else filter_name


def right_metric(metrics: Iterable[str]) -> str | None:
    """Find the metric that says whether an item is answered right."""
    names = set(metrics)
    return next((name for name in _RIGHT if name in names), None)


def rows_of(name: str, task: Any, samples: Sequence[Mapping[str, Any]], results: Mapping[str, Any]) -> list[Row]:
    """Make a row a document and filter, with the metrics that are means over documents.

    `samples`: the harness's log of the task. `results`: its metrics (`acc,none`)."""
    found = []
    means = _means(samples, results)
    for sample in samples:
        prompt = str(sample["arguments"][0][0]) if sample["arguments"] else ""
        row: Row = {"task": name, "variant": variant_of(sample["filter"]), "id": f"{name}/{sample['doc_id']}",
                    "item": f"{name}/{sample['doc_id']}", "lang": language_of(prompt)}  # fmt: skip
        row |= {metric: float(sample[metric]) for metric in means if metric in sample}
        row["asked"] = _digest(task, sample)
        row |= _answer(task, sample, row.get(right_metric(row) or ""))
        if "correct" in row:
            row.pop("acc", None)  # says the same
        found.append(row)
    return found


def mark_group(rows: Iterable[Row], name: str, group: Any) -> None:
    """Name a group in the rows of its tasks: in `groups` where its metrics are over all items alike, in
    `groups_of_tasks` where they are over the tasks' means (`weight_by_size: false`)."""
    tasks = {task.task_name for task in group.get_all_tasks()}
    by_size = all(each.weight_by_size for each in group.aggregate_metric_list or ())
    for row in rows:
        if row["task"] in tasks:
            row.setdefault("groups" if by_size else "groups_of_tasks", []).append(name)


def _digest(task: Any, sample: Mapping[str, Any]) -> str:
    """Digest the request without a chat template, and the number of examples before it."""
    config, doc = task.config, sample["doc"]
    description = task.resolve_field(doc, config.description) if config.description else ""
    options = task.doc_to_choice(doc) if task.OUTPUT_TYPE == "multiple_choice" else []
    return digest(description, config.num_fewshot or 0, config.fewshot_delimiter, task.doc_to_text(doc),
                  config.target_delimiter, options, sample["target"])


def _means(samples: Sequence[Mapping[str, Any]], results: Mapping[str, Any]) -> list[str]:
    """Name the metrics whose value is the mean over documents (perplexities and F1 are not)."""
    found = []
    for metric in dict.fromkeys(metric for sample in samples for metric in sample["metrics"]):
        values = [(sample["filter"], sample[metric]) for sample in samples if metric in sample]
        if not all(isinstance(value, bool | int | float) and math.isfinite(value) for _, value in values):
            continue
        groups = {name: [float(value) for each, value in values if each == name] for name, _ in values}
        means = {name: math.fsum(each) / len(each) for name, each in groups.items()}
        given: dict[str, Any] = {name: results.get(f"{metric},{name}") for name in groups}
        if all(isinstance(given[name], int | float) and math.isclose(mean, given[name], abs_tol=1e-9)
               for name, mean in means.items()):
            found.append(metric)
    return found


def _answer(task: Any, sample: Mapping[str, Any], right: float | None) -> Row:
    """Describe the answer: the option, or the text; `correct` where `right` is either 1 or 0."""
    binary = right in (0.0, 1.0)
    if task.OUTPUT_TYPE == "generate_until":
        texts, read = sample["resps"][0], sample["filtered_resps"][0]
        answered: Row = {"text": str(texts[0]) if texts else "", "extracted": str(read)}
        if not binary:
            return answered
        return answered | {"correct": right == 1, "chosen": 0 if right else OTHER_ANSWER, "gold": 0, "scores": []}
    scores = [_logprob(each) for each in sample["filtered_resps"]]
    if task.OUTPUT_TYPE != "multiple_choice" or not all(map(math.isfinite, scores)):
        return {"scores": [round(score, 5) for score in scores]}
    choices = list(task.doc_to_choice(sample["doc"]))
    scores, rights = scores[: len(choices)], rights_of(task, sample["doc"], choices)
    answered = {"scores": [round(score, 5) for score in scores], "chosen": scores.index(max(scores))}
    if rights:
        answered |= {"gold": rights[0]} | ({"golds": list(rights)} if len(rights) > 1 else {})
        answered |= {"correct": right == 1} if binary else {}
    return answered


def _logprob(response: Any) -> float:
    """Read a log-probability from (log-probability, is greedy), or a text's."""
    return float(response[0] if isinstance(response, Sequence) else response)


def scored_samples(samples: Sequence[Sample], model: LanguageModel) -> tuple[list[Sample], Counter[tuple[str, str]]]:
    """Keep the samples whose responses are texts or finite, and count the others by filter and reason: the likeliest of
    scores that are no numbers is the first option, whatever it says, so that a broken model would be right there."""
    kept, left_out = [], Counter[tuple[str, str]]()
    for sample in samples:
        responses = [response for each in sample["resps"] for response in each]
        if all(isinstance(response, str) or math.isfinite(_logprob(response)) for response in responses):
            kept.append(sample)
        else:
            pairs = [each for each in sample["arguments"] if len(each) == 2]
            fits = model.fit(pairs, option_items(pairs, [0] * len(pairs)))
            why = TOO_LONG if Fit.TOO_LONG in fits else JOINED if Fit.JOINED in fits else NO_NUMBER
            left_out[str(sample["filter"]), why] += 1
    return kept, left_out


def option_items(pairs: Sequence[Pair], documents: Sequence[Hashable]) -> list[Hashable]:
    """Name for each pair of a document what it is compared with: those after the same context, else (where each
    option has its own) all of the document."""
    known = Counter((document, context) for document, (context, _) in zip(documents, pairs, strict=True))
    return [("lm-eval", document, context if known[document, context] > 1 else None)
            for document, (context, _) in zip(documents, pairs, strict=True)]  # fmt: skip


def aggregate(task: Any, samples: Sequence[Sample], results: Mapping[str, Any]) -> dict[str, Any]:
    """Aggregate a task's metrics over these samples alone, by the task's own functions; NaN where that is impossible.

    `samples`: the samples that have scores. `results`: the harness's results over all samples."""
    from lm_eval.api.metrics import mean, stderr_for_metric

    found = {key: value for key, value in results.items() if "," not in key} | {"sample_len": 0}
    for key in results:
        metric, _, filter_name = key.partition(",")
        if not filter_name or metric.endswith("_stderr"):
            continue
        values = [sample[metric] for sample in samples if sample["filter"] == filter_name and metric in sample]
        together = task.aggregation().get(metric, mean)
        error = stderr_for_metric(together, 100)
        try:
            found[key] = together(values)
            found[f"{metric}_stderr,{filter_name}"] = error(values) if error and len(values) > 1 else "N/A"
        except (ArithmeticError, LookupError, TypeError, ValueError):  # too few samples, or not the ones it needs
            found |= {key: math.nan, f"{metric}_stderr,{filter_name}": "N/A"}
        found["sample_len"] = max(found["sample_len"], len(values))
    return found
