"""RLHF: the policy learns from rewards of its own answers, by PPO, GRPO, RLOO or REINFORCE++.

python -m steps.rlhf --config '{"checkpoint": SFT_DIR, "reward_model": RM_DIR, "data": DIR}' --out DIR"""

from collections.abc import Sequence
from typing import Any

from argosy.core.step.command import main
from argosy.core.step.contract import Planned, Step, StepContext
from argosy.corpus.data.split import PROMPTS
from argosy.model.post import RL
from argosy.model.post.config import PosttrainingOutputs
from argosy.model.post.rl import RLHFConfig
from argosy.model.post.rl.methods import METHODS
from argosy.model.post.rl.rewards import check_classifiers
from argosy.model.train.checks import TRAINING, check_tuning


def run(config: RLHFConfig, context: StepContext) -> PosttrainingOutputs:
    """Train, evaluate before and after, export."""
    from argosy.model.post.rl.rewards import Surroundings, WeightedRewards, check_model
    from argosy.model.post.rl.server import check_installed
    from argosy.model.post.stage import begin

    for given in (config.rewards, config.guards.true_reward):
        check_model(given, config.reward_model)
    if config.generation == "vllm":
        check_installed(config.server)
    stage = begin(config, context)
    from argosy.model.post.rl import prompts
    from argosy.model.post.rl.learning import train_policy

    source = stage.source
    room = prompts.room_of_prompts(config.max_length or source.context, config.max_new_tokens)
    around = Surroundings(config.reward_model, source.device, config.reward_caution, config.classifier)
    rewards = WeightedRewards(config.rewards, around)
    true = WeightedRewards(config.guards.true_reward, around) if config.guards.true_reward else None

    def problem(fields: dict[str, Any]) -> str:
        return rewards.problem(fields) or (true.problem(fields) if true else "")

    read = stage.read(prompts.prompt_parser(source.tokenizer, room, problem), config.prompts)
    stage.keep_rejects()
    chosen, heldout = prompts.hold_out(read, config.heldout_limit, config.seed)
    config.amount_of_prompts(len(chosen))  # before anything is generated
    decoding = source.decoding(config.max_new_tokens, config.temperature, config.seed)
    evaluations: list[prompts.PolicyEvaluation] = []

    def evaluate(policy: Any) -> dict[str, float]:
        reference = source.causal_model().eval() if evaluations else policy
        evaluations.append(prompts.evaluate_policy(policy, reference, source.tokenizer, heldout, rewards, decoding))
        first, last = evaluations[0], evaluations[-1]
        return last.metrics if first is last else last.metrics | last.gain(first)

    model = stage.model()
    return stage.run(model, evaluate, lambda: train_policy(stage, model, chosen, heldout, rewards, true))


def check(parts: Sequence[Planned], nodes: Sequence[Planned]) -> None:
    """Check devices, lengths and classifiers. Raises InputError: the step could not run."""
    check_tuning(parts, nodes)
    check_classifiers(parts, nodes)


STEP = Step("rlhf", RLHFConfig, run, version=8, needs="train", makes_model=True,
            metrics={**TRAINING, **RL}, check=check, methods=tuple(METHODS), files={"prompts": PROMPTS})

if __name__ == "__main__":
    main(STEP)
