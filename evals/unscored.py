"""Answers of lm-eval's harness whose scores are not numbers: the likeliest of these is the first option, whatever it
says, so that a broken model would be right there."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from argosy.evaluation.language_model import LanguageModel
from argosy.evaluation.scoring import Fit

Sample = Mapping[str, Any]
NO_NUMBER, TOO_LONG = "score is not a number", "answer is longer than the model"


def scored(samples: Sequence[Sample], model: LanguageModel) -> tuple[list[Sample], Counter[tuple[str, str]]]:
    """Samples that the harness logged with responses that are texts or finite; of the others how many by filter and
    reason."""
    kept, left_out = [], Counter[tuple[str, str]]()
    for sample in samples:
        if all(_is_number(response) for each in sample["resps"] for response in each):
            kept.append(sample)
        else:
            pairs = [each for each in sample["arguments"] if len(each) == 2]
            why = TOO_LONG if Fit.TOO_LONG in model.fit(pairs) else NO_NUMBER
            left_out[str(sample["filter"]), why] += 1
    return kept, left_out


def _is_number(response: Any) -> bool:
    """Of a generated text, a text's log-probability, or (log-probability, is greedy)."""
    return isinstance(response, str) or math.isfinite(response[0] if isinstance(response, Sequence) else response)


def measured(task: Any, samples: Sequence[Sample], results: Mapping[str, Any]) -> dict[str, Any]:
    """A task's results with the metrics of these samples alone, put together by the task's own functions; NaN for one
    that cannot be had of them.

    Args:
        samples: those that have scores.
        results: what the harness made of all samples.
    """
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
        except (ArithmeticError, LookupError, TypeError, ValueError):  # not of so few, or not of what samples have
            found |= {key: math.nan, f"{metric}_stderr,{filter_name}": "N/A"}
        found["sample_len"] = max(found["sample_len"], len(values))
    return found
