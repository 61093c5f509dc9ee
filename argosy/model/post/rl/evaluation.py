"""Evaluates what a policy earns on held-out prompts, greedy and sampled, and how far it has gone from its start."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import fmean, stdev
from typing import Any

from argosy.corpus.data.split import derive_seed
from argosy.model.infer.decode import Decoding, TransformersDecoder
from argosy.model.infer.logprobs import answer_kl
from argosy.model.post.rl.prompts import make_samples
from argosy.model.post.rl.reward import Prompt
from argosy.model.post.rl.rewards import WeightedRewards

SAMPLES = 4  # sampled answers to a prompt: halves the noise of one


@dataclass(frozen=True)
class PolicyEvaluation:
    """metrics by name; rewards: the mean reward of each prompt's sampled answers, in the prompts' order."""

    metrics: dict[str, float]
    rewards: list[float]

    def gain(self, before: "PolicyEvaluation") -> dict[str, float]:
        """Return the mean change of a prompt's sampled reward since `before`, and its standard error (paired by prompt;
        none for one prompt)."""
        changes = [now - then for now, then in zip(self.rewards, before.rewards, strict=True)]
        gained = {"heldout/reward/sampled/gain": fmean(changes)}
        if len(changes) > 1:
            gained["heldout/reward/sampled/gain_stderr"] = stdev(changes) / math.sqrt(len(changes))
        return gained


def evaluate_policy(
    policy: Any, reference: Any, tokenizer: Any, prompts: Sequence[Prompt], rewards: WeightedRewards, decoding: Decoding
) -> PolicyEvaluation:
    """Return mean rewards of the prompts' answers, and the divergence from the reference.

    Args:
        decoding: its temperature is that of the sampled half; the same seed before and after training.

    Returns:
        The metrics heldout/reward/<greedy|sampled>, the same by component below it, heldout/length/<...> in tokens, and
        heldout/kl, heldout/kl_k1, heldout/kl_k3 in nats an answer sampled at temperature 1."""
    values: dict[str, float] = {}
    ids = [prompt.ids for prompt in prompts]
    for kind, copies, chosen in (("greedy", 1, replace(decoding, temperature=0.0)), ("sampled", SAMPLES, decoding)):
        asked = [prompt for prompt in prompts for _ in range(copies)]
        answers = _answers(policy, ids, copies, chosen)
        totals, parts, _ = rewards(make_samples(tokenizer, asked, answers, decoding.stop_ids))
        values[f"heldout/reward/{kind}"] = fmean(totals)
        values |= {f"heldout/reward/{kind}/{name}": fmean(part) for name, part in parts.items()}
        values[f"heldout/length/{kind}"] = fmean([len(answer) for answer in answers])
    if decoding.temperature != 1.0:
        answers = _answers(policy, ids, SAMPLES, replace(decoding, temperature=1.0))
    kl = answer_kl(policy, reference, [each for each in ids for _ in range(SAMPLES)], answers, decoding.pad_id)
    values |= {f"heldout/{name}": value for name, value in kl.items()}
    return PolicyEvaluation(values, [fmean(totals[at : at + SAMPLES]) for at in range(0, len(totals), SAMPLES)])


def _answers(policy: Any, prompts: Sequence[Sequence[int]], copies: int, decoding: Decoding) -> list[list[int]]:
    seeds = [[derive_seed("heldout", decoding.seed, place, copy) for copy in range(copies)]
             for place in range(len(prompts))]
    return TransformersDecoder(policy)(prompts, seeds, replace(decoding, scored=False)).tokens
