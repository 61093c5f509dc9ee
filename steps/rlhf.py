"""RLHF: the policy learns from rewards of its own answers, by GRPO, RLOO or PPO.

python -m steps.rlhf --config '{"checkpoint": SFT_DIR, "reward_model": RM_DIR, "data": DIR}' --out DIR"""

from typing import TYPE_CHECKING, Any

from argosy.errors import InputError
from argosy.posttraining.config import PosttrainingOutputs
from argosy.posttraining.rl.config import RLHFConfig
from argosy.step.command import main
from argosy.step.contract import Step, StepContext

if TYPE_CHECKING:
    from argosy.posttraining.stage import Trained


def run(config: RLHFConfig, context: StepContext) -> PosttrainingOutputs:
    """Train, evaluate before and after, export."""
    from argosy.posttraining.rl.rewards import RewardSettings, WeightedRewards, check_settings, hold_out, prompt_parser
    from argosy.posttraining.stage import begin

    check_settings(config.rewards, RewardSettings(config.reward_model))
    stage = begin(config, context)
    from argosy.posttraining.rl.rollout import PolicyEvaluation, check_value_model, evaluate_policy

    source = stage.source
    if config.method == "ppo":
        check_value_model(source)
    room = (config.max_length or source.context) - config.max_new_tokens
    if room < 1:
        raise InputError(f"max_new_tokens={config.max_new_tokens} leaves no room for a prompt in a context of "
                         f"{source.context} tokens; lower it")
    prompts = stage.read(prompt_parser(source.tokenizer, room), config.prompts)
    stage.keep_rejects()
    chosen, heldout = hold_out(prompts, config.heldout_limit, config.seed)
    rewards = WeightedRewards(config.rewards, RewardSettings(config.reward_model, source.device, config.reward_caution))
    policy, reference = stage.model(), source.causal_model().eval()
    decoding = source.decoding(config.max_new_tokens, config.temperature, config.seed)

    evaluations: list[PolicyEvaluation] = []

    def evaluate(policy: Any) -> dict[str, float]:
        evaluations.append(evaluate_policy(policy, reference, source.tokenizer, heldout, rewards, decoding))
        first, last = evaluations[0], evaluations[-1]
        return last.metrics if first is last else last.metrics | last.gain(first)

    def train() -> "Trained":
        if config.method == "ppo":
            from argosy.posttraining.rl.ppo import train_ppo

            return train_ppo(stage, policy, reference, chosen, rewards)
        from argosy.posttraining.rl.group_policy import train_group_policy

        return train_group_policy(stage, policy, chosen, rewards)

    return stage.run("rlhf", policy, evaluate, train)


STEP = Step("rlhf", RLHFConfig, run, version=3, needs="train")

if __name__ == "__main__":
    main(STEP)
