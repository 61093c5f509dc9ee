"""1 for an answer that ended by itself, 0 for one that was cut at the limit."""

from argosy.model.post.rl.rewards import Reward, RewardConfig, Sample, Score


class Ended(Reward[RewardConfig]):
    def score(self, sample: Sample, reference: str) -> Score:
        return Score(1.0) if sample.ended else Score(0.0, "cut at the limit")
