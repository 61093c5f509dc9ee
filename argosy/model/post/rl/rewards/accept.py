"""1 for a right answer, else 0: one of the prompt's accepted strings, or a JSON object whose "answer" is one."""

import json
from collections.abc import Sequence

from argosy.model.post.rl.rewards import Reward, RewardConfig, Sample, Score, shown


class Accept(Reward[RewardConfig]):
    checks = "accept"

    def score(self, sample: Sample, reference: Sequence[str]) -> Score:
        given: object = sample.text
        if sample.prompt.fields.get("format") == "json":
            try:
                given = json.loads(sample.text)["answer"]
            except (ValueError, TypeError, KeyError, RecursionError):
                return Score(0.0, 'no JSON object with "answer"')
        return Score(1.0) if given in reference else Score(0.0, f"{shown(str(given))!r} is not accepted")
