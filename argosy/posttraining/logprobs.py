"""Log-probabilities that a model gives to answers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from argosy.posttraining.batches import by_length, pad_right


def answer_logprobs(
    model: Any,
    prompts: Sequence[Sequence[int]],
    answers: Sequence[Sequence[int]],
    pad_id: int,
    batch_size: int,
) -> list[Any]:
    """log p(token | prompt and answer so far) of each answer's tokens: one float tensor an answer."""
    import torch

    rows = [[*prompt, *answer] for prompt, answer in zip(prompts, answers, strict=True)]
    result: list[Any] = [None] * len(rows)
    model.eval()
    with torch.no_grad():
        for batch in by_length(rows, batch_size):
            ids = pad_right([rows[index] for index in batch], pad_id).to(model.device)
            mask = pad_right([[1] * len(rows[index]) for index in batch], 0).to(model.device)
            logprobs = token_logprobs(model(input_ids=ids, attention_mask=mask).logits[:, :-1], ids[:, 1:]).cpu()
            for at, index in enumerate(batch):
                start = len(prompts[index]) - 1
                result[index] = logprobs[at, start : start + len(answers[index])].clone()
    return result


def token_logprobs(logits: Any, ids: Any) -> Any:
    """Log-probability of `ids` (..., T) under `logits` (..., T, V), in float32."""
    return logits.float().log_softmax(-1).gather(-1, ids.unsqueeze(-1)).squeeze(-1)
