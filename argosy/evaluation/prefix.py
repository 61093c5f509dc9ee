"""Keys and values of a beginning that many rows share, computed once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from argosy.evaluation.rows import Tokens

if TYPE_CHECKING:
    import torch


class Prefix:
    """The last one that a model was asked for."""

    def __init__(self, model: Any) -> None:
        self._model = model
        self._tokens: Tokens = ()
        self._layers: list[tuple[torch.Tensor, torch.Tensor]] = []

    def expanded(self, tokens: Tokens, rows: int) -> Any:
        """A cache of their keys and values for that many rows (computed once, not copied)."""
        import torch
        from transformers import DynamicCache

        if self._tokens != tokens:
            self.clear()
            ids = torch.tensor([tokens], device=self._model.device)
            with torch.inference_mode():
                found = self._model(input_ids=ids, use_cache=True, logits_to_keep=1).past_key_values
            self._tokens, self._layers = tokens, [(layer[0], layer[1]) for layer in found]
        with torch.inference_mode():
            cache = DynamicCache()
            for number, (keys, values) in enumerate(self._layers):
                cache.update(keys.expand(rows, -1, -1, -1), values.expand(rows, -1, -1, -1), number)
        return cache

    def clear(self) -> None:
        """Give back what it takes."""
        self._tokens, self._layers = (), []
