"""Continuous batching (Yu et al. 2022, "Orca"): answers join and leave between two tokens, over transformers' cache.

An answer is a function of its prompt, its settings and its seed, whatever else is in the batch: rows are padded on the
left, and a model for which that is not exact is given one row at a time."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from argosy.core.errors import InputError
from argosy.core.lazy import Tensor, torch
from argosy.model.infer.decode import pad_left, padding_allowed
from argosy.model.infer.forward import short_rope
from argosy.model.infer.logprobs import sample_tokens
from argosy.model.infer.shared import TRIAL_ERRORS, trial_tolerance


@dataclass(frozen=True)
class Sampling:
    """Settings of one answer."""

    max_tokens: int
    ends: frozenset[int]
    """tokens that end it"""
    temperature: float = 1.0
    """0 is greedy"""
    top_p: float = 1.0
    seed: int = 0
    top: int | None = None
    """number of likeliest tokens whose log-probabilities are wanted beside each chosen one's; None: not even that"""


@dataclass
class Token:
    """A token of an answer."""

    id: int
    logprob: float = 0.0
    """log-probability at temperature 1, in nats, where it is wanted"""
    likeliest: Sequence[tuple[int, float]] = ()
    """the likeliest tokens there, and their log-probabilities"""


@dataclass(eq=False)
class Row:
    """A prompt with its answer so far."""

    prompt: Sequence[int]
    sampling: Sampling
    tokens: list[Token] = field(default_factory=list)
    left: bool = False
    """whether nobody waits for it any more; it leaves the batch before the next token"""
    _random: Any = None

    @property
    def ended(self) -> str:
        """Why it has ended: `stop`, `length`, or "" where it has not."""
        if self.tokens and self.tokens[-1].id in self.sampling.ends:
            return "stop"
        return "length" if len(self.tokens) >= self.sampling.max_tokens else ""

    def draw(self) -> float:
        """Draw the number in [0, 1) of the next token."""
        if self._random is None:
            self._random = np.random.default_rng(self.sampling.seed)
        return float(self._random.random(dtype=np.float32))


class Batch:
    """The rows that a causal model of transformers answers now."""

    def __init__(self, model: Any) -> None:
        self.model = model.eval()
        self.rows: list[Row] = []
        self._cache: Any = None
        self._widths: list[int] = []  # tokens of each row in the cache

    def step(self, newcomers: Sequence[Row] = ()) -> list[Row]:
        """Add a token to each row, of the newcomers the first one; returns the rows that have one more token. Rows that
        have ended, or whose reader has left, are out of the batch."""
        with torch.inference_mode(), padding_allowed(self.model):
            self._leave()
            grown = [*self.rows]
            if self.rows:
                self._go_on()
            if newcomers:
                self._join(newcomers)
                grown += newcomers
        return grown

    def forget(self) -> None:
        """Drop all rows, as after an error."""
        self.rows, self._widths, self._cache = [], [], None

    def _go_on(self) -> None:
        last = torch.tensor([[row.tokens[-1].id] for row in self.rows], device=self.model.device)
        mask = _mask([width + 1 for width in self._widths], last.device)
        places = torch.tensor([[width] for width in self._widths], device=last.device)
        self._choose(self.rows, self._forward(last, mask, places))
        self._widths = [width + 1 for width in self._widths]

    def _forward(self, ids: Tensor, mask: Tensor, places: Tensor) -> Tensor:
        outputs = self.model(input_ids=ids, attention_mask=mask, position_ids=places, past_key_values=self._cache,
                             use_cache=True, logits_to_keep=1)
        self._cache = outputs.past_key_values
        logits: Tensor = outputs.logits[:, -1]
        return logits

    def _join(self, newcomers: Sequence[Row]) -> None:
        """Read the newcomers' prompts, choose their first tokens, and put their cache beside the others'."""
        here, self._cache = self._cache, None
        widths = [len(row.prompt) for row in newcomers]
        ids = pad_left([row.prompt for row in newcomers], 0).to(self.model.device)
        mask = _mask(widths, ids.device)
        self._choose(newcomers, self._forward(ids, mask, (mask.cumsum(-1) - 1).clamp(min=0)))
        if here is not None and self.rows:
            _append(here, self._cache)
            self._cache = here
        self.rows += newcomers
        self._widths += widths

    def _leave(self) -> None:
        going = [at for at, row in enumerate(self.rows) if not row.ended and not row.left]
        if len(going) == len(self.rows):
            return
        if not going:
            self.forget()
            return
        before = max(self._widths)
        self.rows, self._widths = [self.rows[at] for at in going], [self._widths[at] for at in going]
        self._cache.batch_select_indices(torch.tensor(going, device=self.model.device))
        if spare := before - max(self._widths):  # columns that are padding in every row
            for layer in self._cache.layers:
                layer.keys, layer.values = layer.keys[:, :, spare:], layer.values[:, :, spare:]

    def _choose(self, rows: Sequence[Row], logits: Tensor) -> None:
        """Choose the next token of each row, (rows, vocabulary)."""
        logits = logits.float()
        wanted = max((row.sampling.top for row in rows if row.sampling.top is not None), default=None)
        chosen = [int(logits[at].argmax()) if not row.sampling.temperature else _sampled(logits[at], row)
                  for at, row in enumerate(rows)]  # fmt: skip
        if wanted is None:
            for row, token in zip(rows, chosen, strict=True):
                row.tokens.append(Token(token))
            return
        logprobs = logits.log_softmax(-1)
        values, places = logprobs.topk(max(1, wanted), dim=-1)
        own = logprobs.gather(1, torch.tensor(chosen, device=logits.device).unsqueeze(1)).squeeze(1).tolist()
        for row, token, logprob, ids, best in zip(rows, chosen, own, places.tolist(), values.tolist(), strict=True):
            top = row.sampling.top or 0
            row.tokens.append(Token(token, logprob, list(zip(ids[:top], best[:top], strict=True))))


def _sampled(logits: Tensor, row: Row) -> int:
    """Draw a token of one row's softmax(logits / temperature), (vocabulary,)."""
    shares = (logits / row.sampling.temperature).log_softmax(-1).exp()
    return int(sample_tokens(shares[None], torch.tensor([row.draw()], device=logits.device), 0, row.sampling.top_p))


def _mask(widths: Sequence[int], device: Any) -> Tensor:
    return pad_left([[1] * width for width in widths], 0).to(device)


def _append(cache: Any, others: Any) -> None:
    """Put the rows of `others` after those of `cache`; the shorter ones are padded on the left."""
    from torch.nn.functional import pad

    for layer, other in zip(cache.layers, others.layers, strict=True):
        longest = max(layer.keys.shape[-2], other.keys.shape[-2])
        for name in ("keys", "values"):
            both = [getattr(each, name) for each in (layer, other)]
            setattr(layer, name, torch.cat([pad(each, (0, 0, longest - each.shape[-2], 0)) for each in both]))


def _run(model: Any, rows: Sequence[Row]) -> None:
    """Answer rows that join a batch one after the other."""
    batch = Batch(model)
    for row in rows:
        batch.step([row])
    while any(not row.ended for row in rows):
        batch.step()


def joins(model: Any) -> bool:
    """Try whether rows of different lengths that join and leave a batch have the log-probabilities that they have
    alone; where not, a model is given one row at a time. Raises InputError: the model's rotary frequencies depend on
    its longest row (LongRoPE), or it keeps no cache that a token can be added to (Mamba)."""
    if short_rope(model.config.get_text_config()):
        raise InputError("a model with LongRoPE is not served by Argosy's own engine: take --engine vllm or sglang")
    vocabulary = model.config.get_text_config().vocab_size
    prompts = [[(7 * at + 3 * row) % min(50, vocabulary) for at in range(9 - 3 * row)] for row in range(3)]
    alone, together = ([Row(prompt, Sampling(3, frozenset(), temperature=0.0, top=1)) for prompt in prompts]
                       for _ in range(2))  # fmt: skip
    try:
        for row in alone:
            _run(model, [row])
    except TRIAL_ERRORS as error:
        raise InputError(f"Argosy's own engine cannot serve a {type(model).__name__} ({error}): take --engine vllm or "
                         "sglang") from error
    try:
        _run(model, together)
    except TRIAL_ERRORS:
        return False
    tolerance = trial_tolerance(model)
    return all(abs(one.logprob - other.logprob) < tolerance for own, shared in zip(alone, together, strict=True)
               for one, other in zip(own.tokens, shared.tokens, strict=True))
