"""One batch of experience: answers, their old log-probabilities and values, their rewards."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from argosy.posttraining.batches import pad_right
from argosy.posttraining.generation import Decoding, generate
from argosy.posttraining.logprobs import token_logprobs
from argosy.posttraining.prompts import Prompt
from argosy.posttraining.reward import WeightedRewards, make_samples


@dataclass(frozen=True)
class Answers:
    """Prompts with their answers as rectangular tensors, (answers, T) each.

    Attributes:
        ids, attention: prompt and answer, padded on the right.
        mask: (answers, T - 1), 1 where the *next* token belongs to the answer.
    """

    ids: Any
    attention: Any
    mask: Any

    def rows(self, index: Any) -> Answers:
        """The answers at `index`."""
        return Answers(self.ids[index], self.attention[index], self.mask[index])


@dataclass(frozen=True)
class Rollout:
    """What PPO learns from.

    Attributes:
        logprobs, reference, values: (answers, T - 1) of the policy, the reference and the value model at sampling.
        scores: (answers,), the weighted rewards.
        parts: the mean of each reward.
        ended: (answers,), 1 where the answer stopped by itself.
    """

    answers: Answers
    logprobs: Any
    reference: Any
    values: Any
    scores: Any
    parts: dict[str, float]
    ended: Any


@dataclass(frozen=True)
class Models:
    """The three networks of PPO; the reference is frozen."""

    policy: Any
    reference: Any
    value: Any

    def policy_logprobs(self, answers: Answers, temperature: float) -> Any:
        """Log-probabilities of the tokens that follow each position, (answers, T - 1); 0 before all answers."""
        return _logprobs(self.policy, answers, temperature)

    def values(self, answers: Answers) -> Any:
        """Values of the states before each token, (answers, T - 1)."""
        return self.value(input_ids=answers.ids, attention_mask=answers.attention).logits[:, :-1, 0].float()


def collect(
    models: Models, prompts: Sequence[Prompt], rewards: WeightedRewards, tokenizer: Any, decoding: Decoding
) -> Rollout:
    """Sample an answer to each prompt and score it; a pure function of the models and `decoding.seed`."""
    import torch

    sampled = generate(models.policy, [prompt.ids for prompt in prompts], decoding)
    samples = make_samples(tokenizer, prompts, sampled, decoding.stop_ids)
    totals, parts = rewards(samples)
    device = models.policy.device
    answers = _rectangular([prompt.ids for prompt in prompts], sampled, decoding.pad_id, device)
    with torch.no_grad():
        return Rollout(
            answers=answers,
            logprobs=_logprobs(models.policy, answers, decoding.temperature),
            reference=_logprobs(models.reference, answers, decoding.temperature),
            values=models.values(answers),
            scores=torch.tensor(totals, device=device),
            parts={name: sum(part) / len(part) for name, part in parts.items()},
            ended=torch.tensor([float(sample.ended) for sample in samples], device=device),
        )


def _rectangular(
    prompts: Sequence[Sequence[int]], answers: Sequence[Sequence[int]], pad_id: int, device: Any
) -> Answers:
    rows = [[*prompt, *answer] for prompt, answer in zip(prompts, answers, strict=True)]
    spans = [[0] * (len(p) - 1) + [1] * len(a) for p, a in zip(prompts, answers, strict=True)]
    return Answers(
        ids=pad_right(rows, pad_id).to(device),
        attention=pad_right([[1] * len(row) for row in rows], 0).to(device),
        mask=pad_right(spans, 0).to(device).float(),
    )


def _logprobs(model: Any, answers: Answers, temperature: float) -> Any:
    from torch.nn.functional import pad

    # Logits over the vocabulary cost as much as the layers of a small model: none for what is prompt in all rows.
    start = int(answers.mask.any(0).nonzero()[0])
    kept = answers.ids.size(1) - start
    logits = model(input_ids=answers.ids, attention_mask=answers.attention, logits_to_keep=kept).logits[:, :-1]
    # The temperature is part of the policy that sampled (Huang et al. 2024, detail 12).
    return pad(token_logprobs(logits / temperature, answers.ids[:, start + 1 :]), (start, 0))
