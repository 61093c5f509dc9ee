"""The Kullback-Leibler divergence of a policy from its reference, over answers that the policy sampled."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from argosy.posttraining.batches import by_length, pad_right


def k1(logprobs: Any, reference: Any) -> Any:
    """log p - log q of each sampled token: unbiased, of high variance, negative at times (Schulman 2020)."""
    return logprobs - reference


def k3(logprobs: Any, reference: Any) -> Any:
    """q/p - 1 - log(q/p) of each sampled token: unbiased, of low variance, never negative (Schulman 2020)."""
    ratio = reference - logprobs
    return ratio.exp() - 1 - ratio


def exact(logits: Any, reference: Any) -> Any:
    """sum over the vocabulary of p (log p - log q) at each position: (..., T, V) -> (..., T).

    No sampling error within a position; only the positions visited are sampled.
    """
    ours, theirs = logits.float().log_softmax(-1), reference.float().log_softmax(-1)
    return (ours.exp() * (ours - theirs)).sum(-1)


def answer_kl(
    policy: Any, reference: Any, prompts: Sequence[Sequence[int]], answers: Sequence[Sequence[int]], pad_id: int
) -> dict[str, float]:
    """Mean over the answers of the divergence summed over their tokens, in nats an answer.

    Args:
        answers: sampled from `policy` at temperature 1.

    Returns:
        {"kl": exact at each position, "kl_k1", "kl_k3": the two estimators, from the sampled tokens alone}.
    """
    import torch

    rows = [[*prompt, *answer] for prompt, answer in zip(prompts, answers, strict=True)]
    totals = {"kl": 0.0, "kl_k1": 0.0, "kl_k3": 0.0}
    with torch.no_grad():
        for batch in by_length(rows, 64):
            ids = pad_right([rows[i] for i in batch], pad_id).to(policy.device)
            mask = pad_right([[1] * len(rows[i]) for i in batch], 0).to(policy.device)
            spans = [[0] * (len(prompts[i]) - 1) + [1] * len(answers[i]) for i in batch]
            answered = pad_right(spans, 0).to(policy.device)
            start = min(len(prompts[i]) for i in batch) - 1  # no logits for what is prompt in all rows
            inputs = {"input_ids": ids, "attention_mask": mask, "logits_to_keep": ids.size(1) - start}
            p, q = (model(**inputs).logits[:, :-1] for model in (policy, reference))
            target = ids[:, start + 1 :].unsqueeze(-1)
            ours = p.float().log_softmax(-1).gather(-1, target).squeeze(-1)
            theirs = q.float().log_softmax(-1).gather(-1, target).squeeze(-1)
            values = {"kl": exact(p, q), "kl_k1": k1(ours, theirs), "kl_k3": k3(ours, theirs)}
            for name, value in values.items():
                totals[name] += float((value * answered[:, start:]).sum())
    return {name: total / len(rows) for name, total in totals.items()}
