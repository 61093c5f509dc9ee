"""Kinds of the metrics that training logs."""

from argosy.core.statistics.metric import BITS, Metric, share

LOSS = Metric("lower", "nats a token", BITS)
NEITHER = Metric("neither")

RUN: dict[str, Metric] = {  # how a run went, which is not how good its model is
    "time/*": Metric("neither", "ms"),
    "perf/*": NEITHER,
    "memory/*": Metric("neither", "MiB"),
}
TRAINING: dict[str, Metric] = {
    "train/loss*": LOSS,
    "train/value_loss": Metric("lower"),
    "train/accuracy*": share(),
    "train/clipped": share("neither"),
    "train/margin*": Metric("higher"),
    "train/reward_chosen": Metric("higher"),
    "train/*": NEITHER,  # learning rate, tokens, norms
    **RUN,
}
