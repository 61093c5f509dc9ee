"""Kinds of the metrics of held-out text, by pattern of their names."""

from argosy.statistics.metric import BITS, Metric, find, probability, share

_MINOR_LOSS = Metric("lower", "nats a token", BITS, minor=True)

METRICS: dict[str, Metric] = {
    "heldout/bpb/*": Metric("lower", "bits a byte", BITS),
    "heldout/nats/*": _MINOR_LOSS,
    "heldout/ppl/*": Metric("lower", "perplexity", minor=True),
    "heldout/nats_at/*": _MINOR_LOSS,
    "heldout/context_gain/*": Metric("neither", "nats a token", minor=True),  # a worse model may gain more
    "heldout/changed/*": share("neither", minor=True),  # of the tokenizer, not of the model
    # Training text that a model says, or gives away, is to be little; of held-out text it is the baseline.
    "memorisation/exact/*": share("lower"),
    "memorisation/exact_heldout/*": share("neither"),
    "memorisation/matched_heldout/*": probability("neither"),
    "memorisation/auc_*": probability("lower", chance=0.5),
    "memorisation/*": probability("lower"),
}


def declaration(name: str) -> Metric:
    """Look up the declaration of a metric of held-out text. Raises RuntimeError: there is none."""
    metric = find(name, METRICS)
    if metric is None:
        raise RuntimeError(f"argosy/evaluation/heldout does not declare its metric {name!r}")
    return metric
