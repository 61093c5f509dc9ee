"""RLHF: the policy learns from rewards of its own answers, by GRPO, RLOO or PPO.

python -m steps.rlhf --config '{"checkpoint": SFT_DIR, "reward_model": RM_DIR, "data": DIR}' --out DIR
"""

from __future__ import annotations

from argosy.errors import InputError
from argosy.posttraining.export import PosttrainingOutputs
from argosy.posttraining.rl_config import RLHFConfig
from argosy.step import Step, StepContext
from argosy.step_files import given_directory


def run(config: RLHFConfig, context: StepContext) -> PosttrainingOutputs:
    """Train, evaluate before and after, export."""
    from argosy.posttraining.process import prepare_process

    prepare_process(config.seed, config.threads)
    from argosy.posttraining.export import finish
    from argosy.posttraining.group_policy import train_group_policy
    from argosy.posttraining.ppo.train import train_ppo
    from argosy.posttraining.prompts import hold_out, prompt_parser
    from argosy.posttraining.records import Rejects, read_records
    from argosy.posttraining.reward import RewardSettings, WeightedRewards, check_settings
    from argosy.posttraining.rl_evaluation import PolicyEvaluation, evaluate_policy
    from argosy.posttraining.source import open_source

    settings = RewardSettings(config.reward_model)
    check_settings(config.rewards, settings)
    source = open_source("checkpoint", config.checkpoint)
    room = (config.max_length or source.context) - config.max_new_tokens
    if room < 1:
        raise InputError(
            f"max_new_tokens={config.max_new_tokens} leaves no room for a prompt in a context of {source.context} "
            "tokens; lower it"
        )
    rejects = Rejects()
    data = given_directory("data", config.data, "data")
    prompts = read_records(data / config.prompts, prompt_parser(source.tokenizer, room), rejects)
    rejects.write(context.out)
    train, heldout = hold_out(prompts, config.heldout_limit, config.seed)
    rewards = WeightedRewards(config.rewards, settings)
    policy, reference = source.causal_model(), source.causal_model().eval()
    decoding = source.decoding(config.max_new_tokens, config.temperature, config.seed)

    def evaluate() -> PolicyEvaluation:
        return evaluate_policy(policy, reference, source.tokenizer, heldout, rewards, decoding)

    before = evaluate()
    context.tracker.metrics(before.metrics, step=0)
    if config.method == "ppo":
        progress = train_ppo(config, context, source, policy, reference, train, rewards)
    else:
        progress = train_group_policy(config, context, source, policy, train, rewards)
    after = evaluate()
    gained = after.metrics | after.gain(before)
    return finish(context, "rlhf", policy, source, progress, before.metrics, gained, rejects)


STEP = Step("rlhf", RLHFConfig, run, version=2, needs="train")

if __name__ == "__main__":
    STEP.main()
