"""RLHF: the policy learns from rewards of its own answers, by GRPO, RLOO or PPO.

python -m steps.rlhf --config '{"checkpoint": SFT_DIR, "reward_model": RM_DIR, "data": DIR}' --out DIR
"""

from __future__ import annotations

from argosy.errors import InputError
from argosy.posttraining.config import PosttrainingOutputs
from argosy.posttraining.rl.config import RLHFConfig
from argosy.step.command import main
from argosy.step.contract import Step, StepContext
from argosy.store.step_files import given_directory


def run(config: RLHFConfig, context: StepContext) -> PosttrainingOutputs:
    """Train, evaluate before and after, export."""
    from argosy.posttraining.rl.rewards import RewardSettings, WeightedRewards, check_settings, hold_out, prompt_parser
    from argosy.posttraining.stage import begin, finish, keep_rejects

    check_settings(config.rewards, RewardSettings(config.reward_model))
    source, group = begin(config, context)
    from argosy.data.rejects import Rejects, read_records
    from argosy.posttraining.rl.rollout import PolicyEvaluation, evaluate_policy

    room = (config.max_length or source.context) - config.max_new_tokens
    if room < 1:
        raise InputError(f"max_new_tokens={config.max_new_tokens} leaves no room for a prompt in a context of "
                         f"{source.context} tokens; lower it")
    rejects = Rejects()
    data = given_directory("data", config.data, "data")
    prompts = read_records(data / config.prompts, prompt_parser(source.tokenizer, room), rejects)
    keep_rejects(context, rejects)
    train, heldout = hold_out(prompts, config.heldout_limit, config.seed)
    rewards = WeightedRewards(config.rewards, RewardSettings(config.reward_model, source.device))
    policy, reference = source.causal_model(), source.causal_model().eval()
    decoding = source.decoding(config.max_new_tokens, config.temperature, config.seed)

    def evaluate() -> PolicyEvaluation:
        return evaluate_policy(policy, reference, source.tokenizer, heldout, rewards, decoding)

    before = evaluate()
    context.tracker.metrics(before.metrics, step=0)
    if config.method == "ppo":
        from argosy.posttraining.rl.ppo import train_ppo

        progress = train_ppo(config, context, group, source, policy, reference, train, rewards)
    else:
        from argosy.posttraining.rl.group_policy import train_group_policy

        progress = train_group_policy(config, context, group, source, policy, train, rewards)
    after = evaluate()
    gained = after.metrics | after.gain(before)
    return finish(context, "rlhf", policy, source, progress, before.metrics, gained, rejects)


STEP = Step("rlhf", RLHFConfig, run, version=2, needs="train")

if __name__ == "__main__":
    main(STEP)
