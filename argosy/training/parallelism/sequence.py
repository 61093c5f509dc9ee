"""Sequence parallelism (Jacobs et al. 2023, "DeepSpeed Ulysses"): each process has a part of each sample, and for the
attention some heads of the whole sample."""

from typing import Any

from torch import Tensor

from argosy.errors import InputError
from argosy.models.attention import packed_attention
from argosy.training.parallelism.collectives import exchange
from argosy.training.parallelism.mesh import Mesh

_NAME = "argosy_sequence"


def divide_sequence(model: Any, mesh: Mesh) -> None:
    """Have a causal model's attention see whole samples, of which the mesh's sequence axis has parts; in evaluation
    each process has whole samples.

    Raises InputError: the heads cannot be divided."""
    from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

    size = mesh.sizes["sequence"]
    if size == 1:
        return
    check_heads(model.config, size, mesh.sizes["tensor"])
    ALL_ATTENTION_FUNCTIONS.register(_NAME, _Attention(mesh.over("sequence"), size))
    model.set_attn_implementation(_NAME)


def check_heads(config: Any, size: int, tensor: int = 1) -> None:
    """Check that `size` processes can share the heads that `tensor` processes divide already.

    `config`: of transformers. Raises InputError: they cannot; names the nearest size that works."""
    counts = {name: getattr(config, name, None) for name in ("num_attention_heads", "num_key_value_heads")}
    divisors = [n for n in range(1, size + 1) if all(not count or count % (n * tensor) == 0
                                                     for count in counts.values())]
    for name, count in counts.items():
        if count and count % (size * tensor):
            of = f" of a tensor_parallel={tensor} group" if tensor > 1 else ""
            raise InputError(f"sequence_parallel={size} does not divide the model's {name}={count}{of}: the nearest "
                             f"that works is {divisors[-1] if divisors else 1}")


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
