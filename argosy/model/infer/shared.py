"""A beginning that all rows of a batch share, read once: its keys and values are in memory once, and each step's
queries of all rows meet them in one product (Hydragen, Juravsky et al. 2024; here both parts have one softmax).

It is an attention function of transformers by its name in `model.config._attn_implementation`. The model sees the rest
of each row alone, at the places where it stands; the function adds the beginning."""

import inspect
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from argosy.core.lazy import Tensor, torch

NAME = "argosy_shared"
_UNKNOWN = ("softcap", "s_aux", "position_bias", "sliding_window")  # what changes scores and is not taken here
TRIAL_ERRORS = (RuntimeError, ValueError, TypeError, IndexError, AttributeError, NotImplementedError, KeyError)
_LAYERS: list[tuple[Tensor, Tensor]] = []  # keys and values of the beginning now read, (1, key heads, tokens, size)


def attention(module: Any, query: Tensor, key: Tensor, value: Tensor, attention_mask: Tensor | None, scaling: float,
              dropout: float = 0.0, **others: Any) -> tuple[Tensor, None]:
    """Attend to the beginning and to the row's own tokens.

    Args:
        query: (rows, heads, queries, size); key, value: (rows, key heads, keys, size).
        attention_mask: additive, (rows, 1, queries, keys); None: causal where there are several queries.

    Returns (rows, queries, heads, size). Raises ValueError: the model wants what is not taken here."""
    if name := next((name for name in _UNKNOWN if others.get(name) is not None), ""):
        raise ValueError(f"attention with {name}")
    rows, heads, queries, size = query.shape
    groups = key.shape[1]
    known, kept = _LAYERS[module.layer_idx]
    each = (query * scaling).reshape(rows, groups, heads // groups * queries, size)
    together = each.transpose(0, 1).reshape(groups, -1, size)  # queries of all rows, by key head
    before = (together @ known[0].transpose(-1, -2)).reshape(groups, rows, -1, known.shape[2]).transpose(0, 1)
    own = (each @ key.transpose(-1, -2)).view(rows, groups, heads // groups, queries, -1)
    if attention_mask is not None:
        own = own + attention_mask[:, :, None, :, : key.shape[2]]
    elif queries > 1:
        own = own.masked_fill(torch.ones(queries, key.shape[2], device=own.device).triu(1).bool(), -torch.inf)
    scores = torch.cat([before, own.reshape(rows, groups, -1, key.shape[2])], -1)
    weights = scores.softmax(-1, dtype=torch.float32).to(query.dtype)
    first = weights[..., : known.shape[2]].transpose(0, 1).reshape(groups, -1, known.shape[2]) @ kept[0]
    found = first.reshape(groups, rows, -1, size).transpose(0, 1) + weights[..., known.shape[2] :] @ value
    return found.reshape(rows, heads, queries, size).transpose(1, 2).contiguous(), None


class SharedPrefix:
    """The beginning that the last batch shared."""

    def __init__(self, model: Any) -> None:
        self._model = model
        self._tokens: tuple[int, ...] = ()
        self._layers: list[tuple[Tensor, Tensor]] = []

    @contextmanager
    def read(self, tokens: Sequence[int]) -> Iterator[None]:
        """Have all rows within the block begin with these tokens; with none, nothing changes."""
        if not tokens:
            yield
            return
        if self._tokens != tuple(tokens):
            ids = torch.tensor([list(tokens)], device=self._model.device)
            cache = self._model(input_ids=ids, use_cache=True, logits_to_keep=1).past_key_values
            self._tokens, self._layers = tuple(tokens), [(layer[0], layer[1]) for layer in cache]
        own = self._model.config._attn_implementation
        _LAYERS[:] = self._layers
        try:
            self._model.set_attn_implementation(NAME)
            yield
        finally:
            self._model.set_attn_implementation(own)
            _LAYERS.clear()


def shares_prefix(model: Any) -> bool:
    """Try whether rows with a shared beginning have the logits of the same rows alone; not so where attention is not by
    this function (state spaces, positions from the mask, capped scores)."""
    from transformers.masking_utils import ALL_MASK_ATTENTION_FUNCTIONS
    from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

    ALL_ATTENTION_FUNCTIONS.register(NAME, attention)
    ALL_MASK_ATTENTION_FUNCTIONS.register(NAME, ALL_MASK_ATTENTION_FUNCTIONS["eager"])
    if "position_ids" not in inspect.signature(model.forward).parameters:
        return False
    vocabulary = model.config.get_text_config().vocab_size
    rows = [[(7 * at + 3 * row * (at > 4)) % min(50, vocabulary) for at in range(9 - row)] for row in range(2)]
    try:
        with torch.inference_mode():
            alone = [_last_logits(model, [row], 0) for row in rows]
            with SharedPrefix(model).read(rows[0][:5]):
                shared = _last_logits(model, [row[5:] for row in rows], 5)
    except TRIAL_ERRORS:
        return False
    return torch.allclose(shared, torch.cat(alone), atol=trial_tolerance(model))


def trial_tolerance(model: Any) -> float:
    """Return how far log-probabilities of a trial may be from those of one row alone, in the model's precision."""
    return 1e-3 if "32" in str(model.dtype) else 0.1


def _last_logits(model: Any, rows: Sequence[Sequence[int]], before: int) -> Tensor:
    """Compute the log-probabilities after each row, with padding on the left, then after one more token."""
    longest = max(map(len, rows))
    ids = torch.tensor([[0] * (longest - len(row)) + list(row) for row in rows], device=model.device)
    mask = torch.tensor([[0] * (longest - len(row)) + [1] * len(row) for row in rows], device=model.device)
    places = (mask.cumsum(-1) - 1).clamp(min=0) + before
    first = model(input_ids=ids, attention_mask=mask, position_ids=places, use_cache=True, logits_to_keep=1)
    mask = torch.cat([mask, mask.new_ones(len(rows), 1)], 1)
    then = model(input_ids=ids[:, -1:], attention_mask=mask, position_ids=places[:, -1:] + 1, use_cache=True,
                 past_key_values=first.past_key_values, logits_to_keep=1)  # fmt: skip
    return torch.cat([each.logits[:, -1].float().log_softmax(-1) for each in (first, then)], -1)
