"""Sequence parallelism (Jacobs et al. 2023, "DeepSpeed Ulysses"): each process has a part of each sample, and for the
attention some heads of the whole sample."""

from typing import Any

from torch import Tensor

from argosy.model.train.layers.attention import packed_attention
from argosy.model.train.layers.collectives import exchange
from argosy.model.train.parallelism.mesh import Mesh

_NAME = "argosy_sequence"


def divide_sequence(model: Any, mesh: Mesh) -> None:
    """Have a causal model's attention see whole samples, of which the mesh's sequence axis has parts; in evaluation
    each process has whole samples."""
    from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

    size = mesh.sizes["sequence"]
    if size == 1:
        return
    ALL_ATTENTION_FUNCTIONS.register(_NAME, _Attention(mesh.over("sequence"), size))
    model.set_attn_implementation(_NAME)


class _Attention:
    """An attention function of transformers over the whole sequence, for some of the heads."""

    def __init__(self, group: Any, size: int) -> None:
        self._group, self._size = group, size

    def __call__(self, module: Any, query: Tensor, key: Tensor, value: Tensor, attention_mask: Tensor | None,
                 **kwargs: Any) -> tuple[Tensor, None]:
        if not module.training:
            return packed_attention(module, query, key, value, attention_mask, **kwargs)
        query, key, value = (self._heads(each) for each in (query, key, value))
        output, _ = packed_attention(module, query, key, value, attention_mask, **kwargs)
        return self._positions(output), None

    def _heads(self, tensor: Tensor) -> Tensor:
        """Turn (samples, heads, part of length, size) into (samples, part of heads, length, size)."""
        samples, heads, length, size = tensor.shape
        parts = tensor.reshape(samples, self._size, heads // self._size, length, size).permute(1, 0, 2, 3, 4)
        received = exchange(parts, self._group)
        return received.permute(1, 2, 0, 3, 4).reshape(samples, heads // self._size, self._size * length, size)

    def _positions(self, tensor: Tensor) -> Tensor:
        """Turn (samples, length, part of heads, size) into (samples, part of length, heads, size)."""
        samples, length, heads, size = tensor.shape
        parts = tensor.reshape(samples, self._size, length // self._size, heads, size).permute(1, 0, 2, 3, 4)
        received = exchange(parts, self._group)
        return received.permute(1, 2, 0, 3, 4).reshape(samples, length // self._size, self._size * heads, size)
