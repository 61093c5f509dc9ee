"""The reward model's score of prompt and answer, as it is (its scale is that of Bradley and Terry, in nats)."""

from collections.abc import Sequence
from functools import cached_property
from typing import Any

from argosy.model.post.rl.rewards import Reward, RewardConfig, Sample, Score


class Model(Reward[RewardConfig]):
    @cached_property
    def _loaded(self) -> tuple[Any, Any]:
        from argosy.model.post.preferences.rewards import load_reward_model
        from argosy.model.post.stage import open_source

        source = open_source("reward_model", self.surroundings.reward_model, self.surroundings.device)
        return source, load_reward_model(source).eval()

    def scores(self, samples: Sequence[Sample], references: Sequence[str]) -> list[Score]:
        from argosy.model.post.preferences.objective import rewards_of

        source, model = self._loaded
        conversations = [[*sample.prompt.ids, *sample.answer_ids] for sample in samples]
        found = rewards_of(model, conversations, source.pad_id, batch_size=64, caution=self.surroundings.caution)
        return [Score(value) for value in found]
