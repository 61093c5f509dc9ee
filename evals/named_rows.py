"""Rows of tasks that lm-eval's harness ran, in the shape that ours have, so that they are compared item by item."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from argosy.cleaning.text import HAN
from argosy.evaluation.asked import digest
from evals.lm_eval_items import rights_of
from evals.metrics import OTHER_ANSWER

Row = dict[str, Any]
_HAN = re.compile(f"[{HAN}]")
_RIGHT = ("acc", "exact_match", "em", "pass@1")  # what tells whether an answer is right, the first that a task has


def variant_of(filter_name: str) -> str:
    """What the answers of a filter are called among variants."""
    return "plain" if filter_name == "none" else filter_name


def right_metric(metrics: Iterable[str]) -> str | None:
    """The metric that says whether an item is answered right."""
    names = set(metrics)
    return next((name for name in _RIGHT if name in names), None)


def rows_of(name: str, task: Any, samples: Sequence[Mapping[str, Any]], results: Mapping[str, Any]) -> list[Row]:
    """A row a document and filter. Metrics are in it that are means of what documents have.

    Args:
        samples: what the harness logged of the task.
        results: its metrics (`acc,none`).
    """
    found = []
    means = _means(samples, results)
    for sample in samples:
        prompt = str(sample["arguments"][0][0]) if sample["arguments"] else ""
        row: Row = {"task": name, "variant": variant_of(sample["filter"]), "id": f"{name}/{sample['doc_id']}",
                    "item": f"{name}/{sample['doc_id']}", "lang": "zh" if _HAN.search(prompt) else "en"}  # fmt: skip
        row |= {metric: float(sample[metric]) for metric in means if metric in sample}
        row["asked"] = _asked(task, sample)
        row |= _answer(task, sample, row.get(right_metric(row) or ""))
        if "correct" in row:
            row.pop("acc", None)  # says the same
        found.append(row)
    return found


def mark_group(rows: Iterable[Row], name: str, group: Any) -> None:
    """Write into the rows of a group's tasks that its metrics are of them: `groups`, of all items alike, or
    `groups_of_tasks`, of the tasks' means (`weight_by_size: false`)."""
    tasks = {task.task_name for task in group.get_all_tasks()}
    by_size = all(each.weight_by_size for each in group.aggregate_metric_list or ())
    for row in rows:
        if row["task"] in tasks:
            row.setdefault("groups" if by_size else "groups_of_tasks", []).append(name)


def _asked(task: Any, sample: Mapping[str, Any]) -> str:
    """Of what the task asks, without a chat template, and of how many examples come before it."""
    config, doc = task.config, sample["doc"]
    description = task.resolve_field(doc, config.description) if config.description else ""
    options = task.doc_to_choice(doc) if task.OUTPUT_TYPE == "multiple_choice" else []
    return digest(description, config.num_fewshot or 0, config.fewshot_delimiter, task.doc_to_text(doc),
                  config.target_delimiter, options, sample["target"])


def _means(samples: Sequence[Mapping[str, Any]], results: Mapping[str, Any]) -> list[str]:
    """Metrics whose value is the mean of what each document has (perplexities and F1 are not)."""
    found = []
    for metric in dict.fromkeys(metric for sample in samples for metric in sample["metrics"]):
        values = [(sample["filter"], sample[metric]) for sample in samples if metric in sample]
        if not all(isinstance(value, bool | int | float) and math.isfinite(value) for _, value in values):
            continue
        groups = {name: [float(value) for each, value in values if each == name] for name, _ in values}
        if all(_is_mean(each, results.get(f"{metric},{name}")) for name, each in groups.items()):
            found.append(metric)
    return found


def _is_mean(values: Sequence[float], result: Any) -> bool:
    return isinstance(result, int | float) and math.isclose(math.fsum(values) / len(values), result, abs_tol=1e-9)


def _answer(task: Any, sample: Mapping[str, Any], right: float | None) -> Row:
    """What was answered: the option, or the text; `correct` where `right` says that it is either right or wrong."""
    binary = right in (0.0, 1.0)
    if task.OUTPUT_TYPE == "generate_until":
        texts, read = sample["resps"][0], sample["filtered_resps"][0]
        told: Row = {"text": str(texts[0]) if texts else "", "extracted": str(read)}
        if not binary:
            return told
        return told | {"correct": right == 1, "chosen": 0 if right else OTHER_ANSWER, "gold": 0, "scores": []}
    scores = [_logprob(each) for each in sample["filtered_resps"]]
    if task.OUTPUT_TYPE != "multiple_choice" or not all(map(math.isfinite, scores)):
        return {"scores": [round(score, 5) for score in scores]}
    choices = list(task.doc_to_choice(sample["doc"]))
    scores, rights = scores[: len(choices)], rights_of(task, sample["doc"], choices)
    told = {"scores": [round(score, 5) for score in scores], "chosen": scores.index(max(scores))}
    if rights:
        told |= {"gold": rights[0]} | ({"golds": list(rights)} if len(rights) > 1 else {})
        told |= {"correct": right == 1} if binary else {}
    return told


def _logprob(response: Any) -> float:
    """Of (log-probability, is greedy), or of a text's log-probability."""
    return float(response[0] if isinstance(response, Sequence) else response)
