"""Batches of rows through a Hugging Face causal model, memory that does not suffice included."""

import logging
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

import numpy as np

from argosy.core.errors import StepError
from argosy.core.lazy import torch
from argosy.model.infer.logprobs import Parts, log_softmax, parts
from argosy.model.infer.rows import Grid, Query, Row, Tokens, grid, pack
from argosy.model.infer.shared import TRIAL_ERRORS, trial_tolerance

_LOG = logging.getLogger(__name__)
_NO_MEMORY = ("out of memory", "not enough memory", "can't allocate memory", "cannot allocate memory")
_WINDOWS = ("sliding_window", "window_size", "attention_chunk_size", "local_attention", "attention_window_size",
            "sliding_window_size")  # fmt: skip
_WHOLE = {"full_attention", "global"}  # kinds of layers that attend to all tokens before
Rows = Sequence[Sequence[Query]]
R = TypeVar("R")
Reader = Callable[[Parts, Grid, Sequence[Query]], list[R]]


class Prefix:
    """Keys and values of the beginning that the last rows shared, computed once."""

    def __init__(self, model: Any) -> None:
        self._model = model
        self._tokens: Tokens = ()
        self._layers: list[tuple[torch.Tensor, torch.Tensor]] = []

    def expanded(self, tokens: Tokens, rows: int) -> Any:
        """Make a cache of a beginning's keys and values for that many rows (computed once, not copied)."""
        from transformers import DynamicCache

        if self._tokens != tokens:
            self.clear()
            ids = torch.tensor([tokens], device=self._model.device)
            with torch.inference_mode():
                layers = self._model(input_ids=ids, use_cache=True, logits_to_keep=1).past_key_values
            self._tokens, self._layers = tokens, [(layer[0], layer[1]) for layer in layers]
        with torch.inference_mode():
            cache = DynamicCache()
            for number, (keys, values) in enumerate(self._layers):
                cache.update(keys.expand(rows, -1, -1, -1), values.expand(rows, -1, -1, -1), number)
        return cache

    def clear(self) -> None:
        self._tokens, self._layers = (), []


class Forward:
    """Computes rows, several at once; `adapt` sees which ways of doing so are exact for the model.

    Only positions whose successors are predicted go through the vocabulary, some at a time, so that their logits are
    never all there. Where a model does more to its logits than its output layer does (scaling, capping), the input of
    that layer is reduced to those positions within the model's own forward pass.

    Attributes:
        branching: whether a row may hold sequences that part.
        head: the way logits are made: "apart" (by the output layer alone, some positions at a time), "within" (by the
            model's forward pass, of the positions alone), "whole" (of all positions).
        short: a batch's longest sequence decides how all of it are computed: with more tokens than this, otherwise; 0
            where each is computed as if alone."""

    def __init__(self, model: Any) -> None:
        self.model = model
        self.vocabulary = int(model.config.get_text_config().vocab_size)
        self.branching = True
        self.short = 0
        self.head = "apart" if model.get_output_embeddings() is not None else "whole"
        self._prefix = Prefix(model)
        self._most = 0  # tokens of a forward pass since one had too little memory; 0: no limit

    def run(self, prefix: Tokens, rows: Rows, read: Reader[R]) -> list[R]:
        """Return what `read` makes of the logits of each part of the batch, in order: the whole batch, or halves of it
        while it needs too much memory.

        `read`: takes the logits of all outputs (argosy.model.infer.logprobs), the grid, and the sequences; where
        memory does not suffice for that, again for parts of them. Raises StepError: one sequence alone needs too
        much."""
        packed = [pack(row, len(prefix)) for row in rows]
        size = len(rows) * (len(prefix) + max(len(row.tokens) for row in packed))
        alone = len(rows) == len(rows[0]) == 1
        if self._most and size > self._most and not alone:
            return self._halves(prefix, rows, read)
        try:
            return read(*self._logits(prefix, packed), [each for row in rows for each in row])
        except (MemoryError, RuntimeError) as error:  # torch.OutOfMemoryError is a RuntimeError
            if not is_out_of_memory(error):
                raise
        self._prefix.clear()
        free_memory()
        if alone:
            raise StepError(f"one text of {len(rows[0][0].tokens)} tokens does not fit into memory: use a device with "
                            "more, or fewer processes on it")
        self._most = size // 2
        _LOG.warning("out of memory with %d tokens: halved from here on", size)
        return self._halves(prefix, rows, read)

    def _halves(self, prefix: Tokens, rows: Rows, read: Reader[R]) -> list[R]:
        if len(rows) == 1:
            middle = len(rows[0]) // 2
            return self.run(prefix, [rows[0][:middle]], read) + self.run(prefix, [rows[0][middle:]], read)
        middle = len(rows) // 2
        return self.run(prefix, rows[:middle], read) + self.run(prefix, rows[middle:], read)

    def _logits(self, prefix: Tokens, rows: Sequence[Row]) -> tuple[Parts, Grid]:
        laid = grid(rows)
        device = self.model.device
        cache = self._prefix.expanded(prefix, len(rows)) if prefix else None
        mask = None  # the model's own causal mask is right
        if laid.allowed is not None:
            before, dtype = np.ones((*laid.allowed.shape[:2], len(prefix)), dtype=bool), self.model.dtype
            forbidden = torch.from_numpy(~np.concatenate([before, laid.allowed], axis=2))
            mask = torch.zeros(forbidden.shape, dtype=dtype).masked_fill_(forbidden, torch.finfo(dtype).min)
            mask = mask[:, None].to(device)  # [row, 1, width, prefix + width], added
        inputs = {"input_ids": torch.from_numpy(laid.tokens).to(device),
                  "position_ids": torch.from_numpy(laid.depths).to(device),
                  "attention_mask": mask,
                  "past_key_values": cache, "use_cache": cache is not None}  # fmt: skip
        return self._outputs(inputs, torch.from_numpy(laid.outputs).to(device)), laid

    def _outputs(self, inputs: dict[str, Any], outputs: "torch.Tensor") -> Parts:
        head = self.model.get_output_embeddings()
        with torch.inference_mode():
            if self.head == "apart":
                hidden = self.model.base_model(**inputs).last_hidden_state
                hidden = hidden.reshape(-1, hidden.shape[-1])[outputs]
                yield from parts(head, hidden, self.vocabulary)
                return
            with self._only(outputs):
                logits = self.model(**inputs).logits
            logits = logits.reshape(-1, logits.shape[-1])
            yield range(len(outputs)), iter([logits[outputs] if self.head == "whole" else logits])

    @contextmanager
    def _only(self, outputs: "torch.Tensor") -> Iterator[None]:
        if self.head == "whole":
            yield
            return

        def gather(_: Any, inputs: "tuple[torch.Tensor, ...]") -> "tuple[torch.Tensor, ...]":
            hidden = inputs[0]
            return (hidden.reshape(-1, hidden.shape[-1])[outputs][None], *inputs[1:])

        hook = self.model.get_output_embeddings().register_forward_pre_hook(gather)
        try:
            yield
        finally:
            hook.remove()

    def adapt(self, max_length: int) -> None:
        """Try what is exact for this model: not so where attention is not by these masks (windows, state spaces) or the
        output layer is not the last. A trial is too short to see a window, which the configuration names.

        `max_length`: tokens of the longest sequence."""
        sequences = [tuple((7 * i + 3 * k * (i > 3)) % 50 + 1 for i in range(8)) for k in range(3)]
        trial = sorted(Query(tuple(t % self.vocabulary for t in tokens), 4, ()) for tokens in sequences)
        with torch.inference_mode():
            ids = torch.tensor([query.tokens for query in trial], device=self.model.device)
            logits = self.model(input_ids=ids, use_cache=False).logits[:, 4:]
        expected = torch.log_softmax(logits.reshape(-1, logits.shape[-1]).float(), -1)
        for way in ("apart", "within", "whole") if self.head == "apart" else ("whole",):
            self.head = way
            if self._gives((), [[query] for query in trial], expected):
                break
        config = self.model.config.get_text_config()
        self.short = short if (short := short_rope(config)) < max_length else 0
        self.branching = (attention_window(config) >= max_length and not self.short
                          and self._gives((), [trial], expected)
                          and self._gives(trial[0].tokens[:3], [trial[:2], trial[2:]], expected))  # fmt: skip
        self._prefix.clear()

    def _gives(self, prefix: Tokens, rows: Rows, expected: "torch.Tensor") -> bool:
        try:
            made, laid = self._logits(prefix, [pack(row, len(prefix)) for row in rows])
            values = torch.cat([log_softmax(blocks) for _, blocks in made])[np.concatenate(laid.places)]
        except TRIAL_ERRORS:
            return False
        near = trial_tolerance(self.model)
        return values.shape == expected.shape and torch.allclose(values, expected, atol=near, equal_nan=True)


def attention_window(config: Any) -> float:
    """Count the tokens that the layer with the shortest reach attends to; infinite where each attends to all before.

    A configuration names a window or chunk even where none of its layers has one (`layer_types`, GPT-Neo's
    `attention_layers`, Qwen's `use_sliding_window` say which do); 0 where a layer has another kind of attention
    and nothing says how far it reaches."""
    kinds = getattr(config, "layer_types", None) or getattr(config, "attention_layers", None) or ()
    if getattr(config, "use_sliding_window", None) is False or (kinds and set(kinds) <= _WHOLE):
        return math.inf
    found = [value for name in _WINDOWS if isinstance(value := getattr(config, name, None), int) and value > 0]
    return min(found, default=0 if kinds else math.inf)


def short_rope(config: Any) -> int:
    """Tokens up to which a model with two sets of rotary frequencies takes the one for short texts; 0 where it has one
    set. By LongRoPE (Ding et al., 2024; Phi-3's 128k models) as transformers has it, the longest sequence of a batch
    decides for all of them."""
    given = getattr(config, "rope_parameters", None) or getattr(config, "rope_scaling", None) or {}
    kinds = [given, *(each for each in given.values() if isinstance(each, Mapping))]  # one for all layers, or by kind
    known = getattr(config, "original_max_position_embeddings", None)
    found = [each.get("original_max_position_embeddings") or known or 0 for each in kinds
             if each.get("rope_type", each.get("type")) == "longrope"]  # fmt: skip
    return min(map(int, found), default=0)


def is_out_of_memory(error: BaseException) -> bool:
    """Whether an error says that memory does not suffice, of a device or of the machine."""
    return isinstance(error, MemoryError) or any(text in str(error).lower() for text in _NO_MEMORY)


def free_memory() -> None:
    import gc

    gc.collect()
    torch.accelerator.empty_cache()
