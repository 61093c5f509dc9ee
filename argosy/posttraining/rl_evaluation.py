"""What reinforcement learning did: rewards of held-out prompts, greedy and sampled, and the KL that it cost."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from argosy.posttraining.generation import Decoding, generate
from argosy.posttraining.kl import answer_kl
from argosy.posttraining.prompts import Prompt
from argosy.posttraining.reward import WeightedRewards, make_samples

SAMPLES = 4  # sampled answers to a prompt: halves the noise of one


def evaluate_policy(
    policy: Any, reference: Any, tokenizer: Any, prompts: Sequence[Prompt], rewards: WeightedRewards, decoding: Decoding
) -> dict[str, float]:
    """Mean rewards of the prompts' answers, and the divergence from the reference.

    Args:
        decoding: its temperature is that of the sampled half; the same seed before and after training.

    Returns:
        heldout/reward/<greedy|sampled>, the same by component below it, heldout/length/<...> in tokens, and
        heldout/kl, heldout/kl_k1, heldout/kl_k3 in nats an answer sampled at temperature 1.
    """
    values: dict[str, float] = {}
    many = [prompt for prompt in prompts for _ in range(SAMPLES)]
    halves = (("greedy", prompts, replace(decoding, temperature=0.0)), ("sampled", many, decoding))
    for kind, asked, chosen in halves:
        answers = generate(policy, [prompt.ids for prompt in asked], chosen)
        totals, parts = rewards(make_samples(tokenizer, asked, answers, decoding.stop_ids))
        values[f"heldout/reward/{kind}"] = _mean(totals)
        values |= {f"heldout/reward/{kind}/{name}": _mean(part) for name, part in parts.items()}
        values[f"heldout/length/{kind}"] = _mean([len(answer) for answer in answers])
    ids = [prompt.ids for prompt in many]
    if decoding.temperature != 1.0:
        answers = generate(policy, ids, replace(decoding, temperature=1.0))
    kl = answer_kl(policy, reference, ids, answers, decoding.pad_id)
    return values | {f"heldout/{name}": value for name, value in kl.items()}


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)
