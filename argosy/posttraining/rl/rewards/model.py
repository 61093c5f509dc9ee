"""The reward model's score of prompt and answer, as it is (its scale is that of Bradley and Terry, in nats)."""

from collections.abc import Sequence

from argosy.posttraining.rl.rewards import Reward, RewardSettings, Sample


def make(settings: RewardSettings) -> Reward:
    """Load the reward model of `settings.reward_model`."""
    from argosy.models.load import open_source
    from argosy.posttraining.preferences.heldout import rewards_of
    from argosy.posttraining.preferences.rewards import load_reward_model

    source = open_source("reward_model", settings.reward_model, settings.device)
    model = load_reward_model(source).eval()

    def reward(samples: Sequence[Sample]) -> list[float]:
        conversations = [[*sample.prompt.ids, *sample.answer_ids] for sample in samples]
        return rewards_of(model, conversations, source.pad_id, batch_size=64, caution=settings.caution)

    return reward
