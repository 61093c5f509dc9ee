"""Answers sampled with a cache of keys and values: a prompt is read once for all of its answers, an answer that has
ended leaves the batch, and each answer is a function of its own seed, whatever else is in the batch."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from argosy.core.errors import Stopped
from argosy.core.step.contract import counted
from argosy.model.infer.generate import Decoding, cut, padded
from argosy.model.infer.logprobs import by_length, pad_left

_ENDED = 0.125  # share of a batch's rows that have ended, from which on it is worth copying the others


def sample(
    model: Any, prompts: Sequence[Sequence[int]], seeds: Sequence[Sequence[int]], decoding: Decoding,
    dtype: torch.dtype = torch.float32, shortest: int = 0, cancelled: Callable[[], bool] | None = None,
) -> tuple[list[list[int]], list[list[float]]]:
    """Sample answers to each prompt, as many as it has seeds, the same number of each.

    Args:
        decoding: at temperature 0 all answers are greedy; `batch_size` counts answers.
        dtype: of matrix products.
        shortest: tokens before which no answer ends.
        cancelled: tells, before each token, whether the answers are given up, with a Stopped.

    Returns:
        The token ids of the answers, prompt by prompt, with the stop token where there is one; and the log-probability
        of each token under softmax(logits / temperature), in nats (of greedy ones at temperature 1)."""
    copies = len(seeds[0])
    answers: list[list[int]] = [[] for _ in range(len(prompts) * copies)]
    logprobs: list[list[float]] = [[] for _ in answers]
    model.eval()
    with (torch.inference_mode(), padded(model),
          torch.autocast(model.device.type, dtype=dtype, enabled=dtype != torch.float32)):
        batches = by_length(prompts, max(1, decoding.batch_size // copies))
        for batch in counted(batches, len(prompts), "prompts answered"):
            drawn = _uniform([seed for index in batch for seed in seeds[index]], decoding, model.device)
            tokens, scores = _Going(model, [prompts[index] for index in batch], copies, drawn, decoding, shortest,
                                    cancelled).run()
            places = [index * copies + copy for index in batch for copy in range(copies)]
            for place, row, score in zip(places, tokens.tolist(), scores.tolist(), strict=True):
                answers[place] = cut(row, decoding.stop_ids) if not shortest else row
                logprobs[place] = score[: len(answers[place])]
    return answers, logprobs


def _uniform(seeds: Sequence[int], decoding: Decoding, device: Any) -> Tensor:
    """Return the random numbers of each answer's tokens, (answers, max_new_tokens), in [0, 1)."""
    if not decoding.temperature:
        return torch.zeros(len(seeds), 0, device=device)
    rows = [np.random.default_rng(seed).random(decoding.max_new_tokens, dtype=np.float32) for seed in seeds]
    return torch.from_numpy(np.stack(rows)).to(device)


class _Going:
    """A batch of answers, and those rows of it that have not ended."""

    def __init__(self, model: Any, prompts: Sequence[Sequence[int]], copies: int, drawn: Tensor, decoding: Decoding,
                 shortest: int, cancelled: Callable[[], bool] | None) -> None:
        self._model, self._copies, self._drawn, self._decoding = model, copies, drawn, decoding
        device, rows = model.device, len(prompts) * copies
        self._ids = pad_left(prompts, decoding.pad_id).to(device)
        self._mask = pad_left([[1] * len(prompt) for prompt in prompts], 0).to(device)
        self._places = (self._mask.cumsum(-1) - 1).clamp(min=0)
        self._stops = torch.tensor(list(decoding.stop_ids), device=device)
        self._lines = torch.arange(rows, device=device)
        self._ended = torch.zeros(rows, dtype=torch.bool, device=device)
        self._cache: Any = None
        self._shortest, self._cancelled = shortest, cancelled
        self._tokens = torch.full((rows, decoding.max_new_tokens), decoding.stop_ids[0], device=device)
        self._scores = torch.zeros(rows, decoding.max_new_tokens, device=device)

    def run(self) -> tuple[Tensor, Tensor]:
        """Return the tokens and their log-probabilities, (answers, max_new_tokens), meaningless behind an end."""
        for at in range(self._decoding.max_new_tokens):
            if self._cancelled and self._cancelled():
                raise Stopped("the generation was given up")
            tokens, scores = self._choose(self._logits(), at)
            self._tokens[self._lines, at], self._scores[self._lines, at] = tokens, scores
            if at + 1 >= self._shortest:
                self._ended |= torch.isin(tokens, self._stops)
                ended = int(self._ended.sum())
                if ended == len(self._lines):
                    break
                if ended >= _ENDED * len(self._lines):
                    tokens = self._leave(tokens)
            self._append(tokens)
        return self._tokens, self._scores

    def _logits(self) -> Tensor:
        outputs = self._model(input_ids=self._ids, attention_mask=self._mask, position_ids=self._places,
                              past_key_values=self._cache, use_cache=True, logits_to_keep=1)
        logits: Tensor = outputs.logits[:, -1].float()
        if self._cache is None and self._copies > 1:  # the prompts have been read
            outputs.past_key_values.batch_repeat_interleave(self._copies)
            logits, self._mask, self._places = (each.repeat_interleave(self._copies, dim=0)
                                                for each in (logits, self._mask, self._places))
        self._cache = outputs.past_key_values
        return logits

    def _choose(self, logits: Tensor, at: int) -> tuple[Tensor, Tensor]:
        """Return the next token of each line and its log-probability."""
        if self._decoding.temperature:
            logits = logits / self._decoding.temperature
        scores = logits.log_softmax(-1)
        if not self._decoding.temperature:
            tokens = scores.argmax(-1)
        else:
            rising = scores.exp().cumsum(-1)
            point = self._drawn[self._lines, at].unsqueeze(1) * rising[:, -1:]
            tokens = torch.searchsorted(rising, point, right=True).squeeze(1).clamp(max=logits.shape[1] - 1)
        return tokens, scores.gather(1, tokens.unsqueeze(1)).squeeze(1)

    def _leave(self, tokens: Tensor) -> Tensor:
        """Drop the lines that have ended; returns the tokens of the others."""
        going = (~self._ended).nonzero().squeeze(1)
        self._cache.batch_select_indices(going)
        self._lines, self._ended, self._mask, self._places = (
            each[going] for each in (self._lines, self._ended, self._mask, self._places))
        return tokens[going]

    def _append(self, tokens: Tensor) -> None:
        self._ids = tokens.unsqueeze(1)
        self._mask = torch.cat([self._mask, self._mask.new_ones(len(tokens), 1)], dim=1)
        self._places = self._places[:, -1:] + 1
