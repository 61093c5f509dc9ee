"""Answers of a model to prompts: greedy or sampled, in batches, with its own random state."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from argosy.posttraining.batches import by_length, pad_left


@dataclass(frozen=True)
class Decoding:
    """How to continue a prompt.

    Attributes:
        stop_ids: tokens that end an answer.
        temperature: 0 is greedy; above, tokens are sampled from the whole softmax at that temperature.
        seed: of the sampling; the global random state is left as it was.
    """

    stop_ids: Sequence[int]
    pad_id: int
    max_new_tokens: int
    temperature: float = 0.0
    seed: int = 0
    batch_size: int = 64


def generate(model: Any, prompts: Sequence[Sequence[int]], decoding: Decoding) -> list[list[int]]:
    """The new token ids that follow each prompt, the stop token included where there is one."""
    import torch

    answers: list[list[int]] = [[] for _ in prompts]
    was_training = model.training
    model.eval()
    with torch.random.fork_rng(), torch.no_grad():
        torch.manual_seed(decoding.seed)
        for batch in by_length(prompts, decoding.batch_size):
            rows = _generate_batch(model, [prompts[index] for index in batch], decoding)
            for index, row in zip(batch, rows, strict=True):
                answers[index] = cut(row, decoding.stop_ids)
    model.train(was_training)
    return answers


def cut(ids: Sequence[int], stop_ids: Sequence[int]) -> list[int]:
    """`ids` up to and with the first stop token."""
    end = next((at + 1 for at, token in enumerate(ids) if token in stop_ids), len(ids))
    return list(ids[:end])


def _generate_batch(model: Any, prompts: Sequence[Sequence[int]], decoding: Decoding) -> list[list[int]]:
    from transformers import GenerationConfig

    ids = pad_left(prompts, decoding.pad_id).to(model.device)
    mask = pad_left([[1] * len(prompt) for prompt in prompts], 0).to(model.device)
    sampling = {"temperature": decoding.temperature, "top_k": 0, "top_p": 1.0} if decoding.temperature else {}
    generation = GenerationConfig(
        do_sample=bool(sampling),
        max_new_tokens=decoding.max_new_tokens,
        eos_token_id=list(decoding.stop_ids),
        pad_token_id=decoding.pad_id,
        **sampling,
    )
    out = model.generate(input_ids=ids, attention_mask=mask, generation_config=generation)
    rows: list[list[int]] = out[:, ids.size(1) :].tolist()
    return rows
