"""1 for an answer in the format that was asked for, right or wrong, else 0."""

import json
from collections.abc import Mapping
from typing import Any

from argosy.model.post.rl.rewards import Reward, RewardConfig, Sample, Score


class Format(Reward[RewardConfig]):
    """The answer is a label alone (letter), an object with a string "answer" (json), or one line (text)."""

    def problem(self, fields: Mapping[str, Any]) -> str:
        if fields.get("format") == "letter" and not fields.get("accept"):
            return "accept is missing, which the reward format takes the length of a letter from"
        return ""

    def score(self, sample: Sample, reference: str) -> Score:
        wrong = _problem(sample)
        return Score(0.0, wrong) if wrong else Score(1.0)


def _problem(sample: Sample) -> str:
    fields = sample.prompt.fields
    if not sample.ended:
        return "cut at the limit"
    if not sample.text:
        return "empty"
    if fields.get("format") == "json":
        try:
            right = isinstance(json.loads(sample.text)["answer"], str)
        except (ValueError, TypeError, KeyError, RecursionError):
            right = False
        return "" if right else 'no JSON object with a text "answer"'
    if fields.get("format") == "letter":
        return "" if len(sample.text) <= max(map(len, fields["accept"])) else "more than a letter"
    return "more than one line" if "\n" in sample.text else ""
