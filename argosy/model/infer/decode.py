"""Decoding: the answers to prompts, greedy or sampled, token by token with a cache of keys and values.

A prompt is read once for all of its answers, an answer that has ended leaves the batch, and a sampled answer is a
function of its prompt and its seed, whatever else is in the batch and whatever device computes it."""

import logging
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from argosy.core.errors import StepError
from argosy.core.lazy import Tensor, torch
from argosy.core.step.contract import counted
from argosy.model.infer.batches import SHARED, beginning
from argosy.model.infer.forward import free_memory, is_out_of_memory, short_rope
from argosy.model.infer.logprobs import by_length, sample_tokens
from argosy.model.infer.shared import SharedPrefix, shares_prefix

_ENDED = 0.125  # share of a batch's rows that have ended, from which on it is worth copying the others
_LOG = logging.getLogger(__name__)


@dataclass(frozen=True)
class Decoding:
    """Settings of generation."""

    stop_ids: Sequence[int]
    """tokens that end an answer"""
    pad_id: int
    max_new_tokens: int
    temperature: float = 0.0
    """0 is greedy; above, tokens are sampled from the softmax at that temperature"""
    seed: int = 0
    """seed that the seeds of the answers are derived from"""
    batch_size: int = 64
    """answers at a time"""
    stops: Sequence[str] = ()
    """texts that end an answer"""
    scored: bool = True
    """whether log-probabilities are wanted"""
    top_k: int = 0
    """number of the likeliest tokens that are sampled from; 0 is all"""
    top_p: float = 1.0
    """probability that the likeliest tokens together reach, which alone are sampled from"""


class Answers(NamedTuple):
    """Answers, prompt by prompt, one for each seed: token ids, with the stop token or text where there is one; and the
    log-probability of each token under softmax(logits / temperature), in nats (of greedy ones at temperature 1), where
    those are wanted."""

    tokens: list[list[int]]
    logprobs: list[list[float]]


class Decoder(ABC):
    """A model that answers prompts: one of transformers in this process, or one of vLLM.

    Attributes:
        shares: whether what all prompts of a batch begin with is read once for them."""

    shares: bool = False

    @abstractmethod
    def __call__(self, prompts: Sequence[Sequence[int]], seeds: Sequence[Sequence[int]], decoding: Decoding) -> Answers:
        """Answer each prompt (not empty), as many times as it has seeds, the same number each."""


class TransformersDecoder(Decoder):
    """A causal model of transformers, on its device.

    Args:
        text: the text of token ids, in which stop texts are looked for.
        dtype: of matrix products; None: that of the weights.
        heard: is called with the tokens of each step; an error of its own gives the answers up.
        sharing: whether what a batch's prompts begin with is read once, where that is exact for the model.

    Where memory does not suffice for a batch, its halves follow each other. Raises StepError: it does not suffice for
    one answer."""

    def __init__(self, model: Any, text: Callable[[list[int]], str] | None = None, dtype: "torch.dtype | None" = None,
                 heard: "Callable[[Tensor], object] | None" = None, *, sharing: bool = False) -> None:
        self.model, self.text, self.heard, self._dtype = model, text, heard, dtype
        self.short = short_rope(model.config.get_text_config())
        self.shares = sharing and not self.short and shares_prefix(model)
        self.prefix = SharedPrefix(model)

    def __call__(self, prompts: Sequence[Sequence[int]], seeds: Sequence[Sequence[int]], decoding: Decoding) -> Answers:
        """Answer each prompt, batches of similar lengths at a time."""
        copies = max(map(len, seeds), default=1)
        found = Answers([[] for _ in range(len(prompts) * copies)], [[] for _ in range(len(prompts) * copies)])
        batches = [[group[at] for at in batch] for group in _by_reach(prompts, decoding.max_new_tokens, self.short)
                   for batch in by_length([prompts[at] for at in group], max(1, decoding.batch_size // copies))]
        lower = self._dtype not in (None, torch.float32)
        self.model.eval()
        with (torch.inference_mode(), padding_allowed(self.model),
              torch.autocast(self.model.device.type, dtype=self._dtype, enabled=lower)):
            for batch in counted(batches, len(prompts), "prompts answered"):
                made = self._batch([prompts[at] for at in batch], [seeds[at] for at in batch], decoding)
                places = [at * copies + copy for at in batch for copy in range(copies)]
                for place, tokens, logprobs in zip(places, *made, strict=True):
                    found.tokens[place], found.logprobs[place] = tokens, logprobs
        return found

    def _batch(self, prompts: Sequence[Sequence[int]], seeds: Sequence[Sequence[int]], decoding: Decoding) -> Answers:
        shared = beginning(prompts) if self.shares else 0
        if shared < SHARED or len(prompts) == 1:
            shared = 0
        try:
            with self.prefix.read(prompts[0][:shared]):
                return _BatchDecoding(self, [prompt[shared:] for prompt in prompts], seeds, decoding, shared).run()
        except (MemoryError, RuntimeError) as error:
            if not is_out_of_memory(error):
                raise
        free_memory()
        count, copies = len(prompts), len(seeds[0])
        if count == copies == 1:
            raise StepError(f"{decoding.max_new_tokens} tokens after a prompt of {len(prompts[0])} do not fit into "
                            "memory")
        _LOG.warning("out of memory with %d answers at a time: halved", count * copies)
        if count > 1:
            parts = [(prompts[: count // 2], seeds[: count // 2]), (prompts[count // 2 :], seeds[count // 2 :])]
        else:
            parts = [(prompts, [seeds[0][: copies // 2]]), (prompts, [seeds[0][copies // 2 :]])]
        first, second = (self._batch(*part, decoding) for part in parts)
        return Answers(first.tokens + second.tokens, first.logprobs + second.logprobs)


class _BatchDecoding:
    """Decoding of a batch: its answers so far, and those rows of it that have not ended."""

    def __init__(self, decoder: TransformersDecoder, prompts: Sequence[Sequence[int]], seeds: Sequence[Sequence[int]],
                 decoding: Decoding, before: int = 0) -> None:
        """`before`: tokens that the prompts begin with and that have been read."""
        self._decoder, self._model, self._decoding, self._copies = decoder, decoder.model, decoding, len(seeds[0])
        device, rows, most = decoder.model.device, len(prompts) * self._copies, decoding.max_new_tokens
        self._prompts = pad_left(prompts, decoding.pad_id).to(device)
        self._ids = self._prompts
        self._mask = pad_left([[1] * len(prompt) for prompt in prompts], 0).to(device)
        self._places = (self._mask.cumsum(-1) - 1).clamp(min=0) + before
        self._stops = torch.tensor(list(decoding.stop_ids), dtype=torch.long, device=device)
        numbers = [np.random.default_rng(seed).random(most, dtype=np.float32)  # in [0, 1), of each answer's tokens
                 for row in seeds for seed in row if decoding.temperature]  # fmt: skip
        self._drawn = torch.from_numpy(np.array(numbers, dtype=np.float32)).to(device)
        self._lines = torch.arange(rows, device=device)
        self._ended = torch.zeros(rows, dtype=torch.bool, device=device)
        self._tokens = torch.zeros(rows, most, dtype=torch.long, device=device)
        self._scores = torch.zeros(rows, most, device=device)
        self._sizes: dict[int, int] = {}  # tokens of the answers that a stop text has ended
        self._cache: Any = None

    def run(self) -> Answers:
        decoding = self._decoding
        for at in range(decoding.max_new_tokens):
            tokens, scores = self._choose(self._logits(at), at)
            self._tokens[self._lines, at] = tokens
            if scores is not None:
                self._scores[self._lines, at] = scores
            if self._decoder.heard:
                self._decoder.heard(tokens)
            ended = self._end(tokens, at)
            if ended == len(self._lines):
                break
            if ended >= _ENDED * len(self._lines):
                tokens = self._leave(tokens)
            self._append(tokens, at)
        return self._answers()

    def _logits(self, at: int) -> Tensor:
        outputs = self._model(input_ids=self._ids, attention_mask=self._mask, position_ids=self._places,
                              past_key_values=self._cache, use_cache=True, logits_to_keep=1)
        logits: Tensor = outputs.logits[:, -1]
        self._cache = getattr(outputs, "past_key_values", None)
        if at == 0 and self._copies > 1:  # the prompts have been read
            if self._cache is not None:
                self._cache.batch_repeat_interleave(self._copies)
            logits, self._mask, self._places = (each.repeat_interleave(self._copies, dim=0)
                                                for each in (logits, self._mask, self._places))
        return logits

    def _choose(self, logits: Tensor, at: int) -> "tuple[Tensor, Tensor | None]":
        """Choose the next token of each row; its log-probability too, where those are wanted."""
        decoding = self._decoding
        scores = None
        if decoding.temperature:
            scores = (logits.float() / decoding.temperature).log_softmax(-1)
            tokens = sample_tokens(scores.exp(), self._drawn[self._lines, at], decoding.top_k, decoding.top_p)
        else:
            tokens = logits.argmax(-1)
            if decoding.scored:
                scores = logits.float().log_softmax(-1)
        return tokens, None if scores is None else scores.gather(1, tokens.unsqueeze(1)).squeeze(1)

    def _end(self, tokens: Tensor, at: int) -> int:
        """Mark the rows that end with these tokens; returns how many have ended.

        A stop text is looked for in the last tokens' text alone: a token has a byte or more, so a stop text lies within
        as many tokens as it has bytes; a character that is not whole yet is no match."""
        self._ended |= torch.isin(tokens, self._stops)
        if stops := self._decoding.stops:
            assert self._decoder.text
            first = max(0, at + 1 - max(len(stop.encode()) for stop in stops) - 8)
            tails = self._tokens[self._lines, first : at + 1].tolist()
            for row in (~self._ended).nonzero()[:, 0].tolist():
                text = self._decoder.text(tails[row])
                if any(stop in text for stop in stops):
                    self._sizes[int(self._lines[row])] = at + 1
                    self._ended[row] = True
        return int(self._ended.sum())

    def _leave(self, tokens: Tensor) -> Tensor:
        """Drop the rows that have ended; returns the tokens of the others."""
        going = (~self._ended).nonzero().squeeze(1)
        if self._cache is not None:
            self._cache.batch_select_indices(going)
        self._lines, self._ended, self._mask, self._places = (
            each[going] for each in (self._lines, self._ended, self._mask, self._places))
        return tokens[going]

    def _append(self, tokens: Tensor, at: int) -> None:
        """Go on with these tokens; from the beginning where the model keeps no keys, or those so far were made with
        other rotary frequencies."""
        self._mask = torch.cat([self._mask, self._mask.new_ones(len(tokens), 1)], dim=1)
        if self._cache is None or self._mask.shape[1] == self._decoder.short + 1:
            begun = self._prompts[self._lines // self._copies]
            self._ids = torch.cat([begun, self._tokens[self._lines, : at + 1]], dim=1)
            self._cache, self._places = None, (self._mask.cumsum(-1) - 1).clamp(min=0)
        else:
            self._ids, self._places = tokens.unsqueeze(1), self._places[:, -1:] + 1

    def _answers(self) -> Answers:
        tokens, stops = self._tokens.tolist(), frozenset(self._decoding.stop_ids)
        for line, row in enumerate(tokens):
            first = next((at + 1 for at, token in enumerate(row) if token in stops), len(row))
            tokens[line] = row[: self._sizes.get(line, first)]
        if not self._decoding.scored:
            return Answers(tokens, [[] for _ in tokens])
        return Answers(tokens, [score[: len(row)] for row, score in zip(tokens, self._scores.tolist(), strict=True)])


def pad_left(rows: Sequence[Sequence[int]], value: int) -> Tensor:
    """Pad rows on the left, (rows, longest row), int64."""
    longest = max(len(row) for row in rows)
    return torch.tensor([[value] * (longest - len(row)) + list(row) for row in rows])


@contextmanager
def padding_allowed(model: Any) -> Iterator[None]:
    """Have the model know padding and a cache, which an attention of packed documents does not
    (argosy.model.train.layers.attention)."""
    own = model.config._attn_implementation
    if own in ("eager", "sdpa"):
        yield
        return
    model.set_attn_implementation("sdpa")
    try:
        yield
    finally:
        model.set_attn_implementation(own)


def _by_reach(prompts: Sequence[Sequence[int]], max_tokens: int, short: int) -> list[list[int]]:
    """Group indexes of prompts that may be in one batch of a LongRoPE model: those that stay within `short` tokens,
    those that are longer, and those of each length that go from there to beyond."""
    groups: dict[int, list[int]] = {}
    for index, prompt in enumerate(prompts):
        crosses = len(prompt) <= short < len(prompt) + max_tokens
        groups.setdefault(len(prompt) if crosses else -(len(prompt) > short), []).append(index)
    return list(groups.values())


def before_stops(text: str, stops: Sequence[str]) -> str:
    """Cut `text` before the first of the stop texts."""
    for stop in stops:
        text = text.split(stop)[0]
    return text
