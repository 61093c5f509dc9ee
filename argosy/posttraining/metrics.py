"""Kinds of the metrics that training and post-training log, by pattern of their names."""

from argosy.statistics.metric import BITS, Metric, share

_NEITHER = Metric("neither")
_LOSS = Metric("lower", "nats a token", BITS)

METRICS: dict[str, Metric] = {
    "train/loss*": _LOSS,
    "train/value_loss": Metric("lower"),
    "train/*accuracy": share(),
    "train/clipped": share("neither"),
    "train/margin": Metric("higher"),
    "train/reward_chosen": Metric("higher"),
    "train/*": _NEITHER,  # learning rate, tokens, norms
    "rlhf/reward*": Metric("higher"),
    "rlhf/kl_coef": _NEITHER,
    "rlhf/kl*": Metric("lower", "nats a token"),
    "rlhf/truncated": share("lower"),
    "rlhf/groups_of_equal_reward": share("lower"),
    "rlhf/length": Metric("neither", "tokens"),
    "rlhf/*": _NEITHER,
    "heldout/instruction_loss*": _LOSS,
    "heldout/dpo_loss*": Metric("lower"),
    "heldout/exact_match*": share(),
    "heldout/preference_accuracy*": share(),
    "heldout/preference_margin*": Metric("higher"),
    "heldout/reward/*stderr": _NEITHER,
    "heldout/reward/*": Metric("higher"),
    "heldout/length/*": Metric("neither", "tokens"),
}
