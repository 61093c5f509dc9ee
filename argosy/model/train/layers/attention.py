"""Attention of training over packed documents: which kernel computes it, and what tells it where documents end.

A mask of every pair of a sample's tokens grows with the square of the length and rules FlashAttention out. `packed`
needs the documents' ends alone (Dao et al. 2022; on GPUs torch's kernel for sequences of several lengths): it is an
attention function of transformers, by its name in `model.config._attn_implementation`."""

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.nn.functional import pad, scaled_dot_product_attention

from argosy.core.errors import InputError
from argosy.model.train.layers import GatheredAttention

Choice = Literal["auto", "eager", "sdpa", "flex", "varlen"]
PACKED = "argosy_packed"  # what `varlen` is called among transformers' attention functions
MASKED = ("eager", "sdpa", "flex_attention")
MASKED_LENGTH = 512  # on a CPU, a mask of all pairs is as fast as documents one by one up to about this length
_ROWS = 256  # queries of which a piece with a mask has at most so many
_UNKNOWN = ("softcap", "s_aux", "position_bias")  # what changes scores and no kernel here takes


def blocks(model: Any) -> list[Any]:
    """List the blocks of a causal model: the longest of its lists of modules."""
    lists: list[list[Any]] = [list(each) for each in model.get_decoder().children() if isinstance(each, nn.ModuleList)]
    return max(lists, key=len)


def mixers(block: Any) -> list[Any]:
    """List the parts of a block that let tokens see others, such as attention: transformers numbers their layers."""
    return [each for each in block.children() if hasattr(each, "layer_idx") and not _kind(each).endswith("MLP")]


def _kind(module: Any) -> str:
    return type(module).__name__


def recurrent(model: Any) -> str:
    """Name the kind of a causal model's parts that are no attention over all tokens or the last ones, such as linear
    attention and convolutions, which carry a state along a sample; "" where there is none."""
    kinds = getattr(model.config, "layer_types", None) or ["full_attention"]
    for block, kind in zip(blocks(model), itertools.cycle(kinds), strict=False):
        parts = mixers(block) or [each for each in block.modules() if "Attention" in _kind(each)]  # as GPT-Neo's
        for name in map(_kind, parts or [block]):
            if "Attention" not in name or "Rwkv" in name or kind not in ("full_attention", "sliding_attention"):
                return name
    return ""


def choose(wanted: Choice, device: torch.device, length: int) -> str:
    """Return the name of the attention function for samples of `length` tokens, which transformers then knows.

    Raises InputError: the device cannot compute the one that is wanted."""
    from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

    ALL_ATTENTION_FUNCTIONS.register(PACKED, packed_attention)
    on_cpu = device.type == "cpu"
    if wanted == "flex" and on_cpu:
        raise InputError("attention=flex has no backward on a CPU: set attention=varlen, which needs no mask either, "
                         "or auto")
    if wanted == "auto":
        return "sdpa" if on_cpu and length <= MASKED_LENGTH else PACKED
    return {"flex": "flex_attention", "varlen": PACKED}.get(wanted, wanted)


@dataclass(frozen=True)
class Piece:
    """Queries with the keys that they may see, as ranges of the batch's tokens laid end to end."""

    rows: range
    columns: range
    mask: Tensor | None
    """Additive, (rows, columns); None: causal, of as many queries as keys."""


@dataclass(frozen=True)
class Packed:
    """Ends of the documents of a batch whose samples are laid end to end."""

    ends: Tensor
    """(documents + 1,), int32: 0, and the token after each document."""
    length: int
    """Tokens of a sample; no document is longer."""
    starts: Tensor
    """(documents + 1,), int32: the queries here before each end."""
    own: Tensor | None = None
    """(tokens,), bool: those whose queries are here, the last ones of their document; None: all are."""

    @classmethod
    def of(cls, documents: Tensor) -> "Packed":
        """Read the number of each token's document, (samples, length), equal ones side by side."""
        begins = torch.ones_like(documents, dtype=torch.bool)
        begins[:, 1:] = documents[:, 1:] != documents[:, :-1]
        starts = begins.flatten().nonzero().flatten()  # waits for the device, once for all layers
        ends = pad(starts, (0, 1), value=documents.numel()).int()
        return cls(ends, documents.shape[1], ends)

    @classmethod
    def whole(cls, samples: int, length: int, device: torch.device) -> "Packed":
        """Take each sample for one document."""
        ends = torch.arange(samples + 1, device=device, dtype=torch.int32) * length
        return cls(ends, length, ends)

    def part(self, samples: int, start: int, stop: int) -> "Packed":
        """Return the documents with the queries at positions `start` to `stop` of each sample alone; what of a document
        follows these is a document without queries."""
        if (key := (start, stop)) not in self._made:
            own = torch.zeros(samples, self.length, dtype=torch.bool, device=self.ends.device)
            own[:, start:stop] = True
            stops = torch.arange(stop, own.numel() + 1, self.length, device=own.device)
            ends = torch.cat([self.ends, stops]).sort().values
            starts = pad(own.flatten().cumsum(0), (1, 0))[ends]
            self._made[key] = Packed(ends.int(), self.length, starts.int(), own.flatten())
        return self._made[key]  # type: ignore[no-any-return]

    @cached_property
    def _made(self) -> dict[Any, Any]:
        return {}

    def pieces(self, window: int | None, dtype: torch.dtype) -> list[Piece]:
        """Cut the batch into pieces, which all layers of one window share; masks are of `dtype`."""
        if (window, dtype) not in self._made:
            self._made[window, dtype] = list(_cut(self, window, dtype))
        return self._made[window, dtype]  # type: ignore[no-any-return]


def _cut(packed: Packed, window: int | None, dtype: torch.dtype) -> Iterator[Piece]:
    """Yield short documents together, with a mask of them, and a long one by itself: at once where each query sees all
    keys before it and all of these have queries, else some queries at a time."""
    ends, starts = packed.ends.tolist(), packed.starts.tolist()
    last, tall = 0, None
    while (at := last) < len(ends) - 1:
        last += 1
        while last + 1 < len(ends) and ends[last + 1] - ends[at] <= _ROWS:
            last += 1
        rows, columns = range(starts[at], starts[last]), range(ends[at], ends[last])
        if rows and last - at > 1:
            mask = _mask(ends[at : last + 1], window, dtype, packed.ends.device)
            yield Piece(rows, columns, mask if packed.own is None else mask[packed.own[columns.start : columns.stop]])
        elif 0 < len(rows) == len(columns) <= (window or len(columns)):
            yield Piece(rows, columns, None)
        else:
            for row in rows[::_ROWS]:
                some = range(row, min(row + _ROWS, rows.stop))
                stop = columns.stop - rows.stop + some.stop
                seen = range(max(columns.start, stop - len(some) - window + 1) if window else columns.start, stop)
                tall = _tall(packed.length, window, dtype, packed.ends.device) if tall is None else tall
                yield Piece(some, seen, tall[-len(some) :, -len(seen) :])


def _tall(length: int, window: int | None, dtype: torch.dtype, device: torch.device) -> Tensor:
    """Return the additive mask of a document's last queries; its corner is that of fewer, and of fewer keys."""
    keys = min(length, window + _ROWS) if window else length
    allowed = torch.ones(_ROWS, keys, dtype=torch.bool, device=device).tril(keys - _ROWS)
    return _filled(allowed.triu(keys - _ROWS + 1 - window) if window else allowed, dtype)


def _mask(ends: list[int], window: int | None, dtype: torch.dtype, device: torch.device) -> Tensor:
    """Return the additive mask, (tokens, tokens), of documents that end there."""
    sizes = torch.tensor(ends).diff()
    documents = torch.arange(len(sizes)).repeat_interleave(sizes).to(device)
    return additive(documents[None], window, dtype)[0, 0]


def additive(documents: Tensor, window: int | None, dtype: torch.dtype) -> Tensor:
    """Return an additive (samples, 1, length, length) mask: causal, within a document, and within the last `window`
    tokens. `documents`: (samples, length)."""
    length = documents.shape[1]
    allowed = documents.unsqueeze(2) == documents.unsqueeze(1)
    allowed &= torch.ones(length, length, dtype=torch.bool, device=documents.device).tril()
    if window and window < length:
        allowed &= torch.ones(length, length, dtype=torch.bool, device=documents.device).triu(1 - window)
    return _filled(allowed, dtype).unsqueeze(1)


def _filled(allowed: Tensor, dtype: torch.dtype) -> Tensor:
    return torch.zeros_like(allowed, dtype=dtype).masked_fill_(~allowed, torch.finfo(dtype).min)


def arguments(architecture: Any, documents: Tensor | None, dtype: torch.dtype) -> dict[str, Any]:
    """Return the arguments of a decoder of config `architecture` that keep attention within documents: a mask, by kind
    of layer where the layers are of several, or their ends, as `packed`."""
    if documents is None:
        return {"attention_mask": None}
    if architecture._attn_implementation not in MASKED:
        return {"attention_mask": None, "packed": Packed.of(documents)}
    flex = architecture._attn_implementation == "flex_attention"
    window = getattr(architecture, "sliding_window", None)
    if not window or window >= documents.shape[1]:
        return {"attention_mask": _blocks(documents, None) if flex else additive(documents, None, dtype)}
    made = {kind: _blocks(documents, size) if flex else additive(documents, size, dtype)
            for kind, size in (("full_attention", None), ("sliding_attention", window))}
    several = getattr(architecture, "layer_types", None)
    return {"attention_mask": made if several else made["sliding_attention"]}


def _blocks(documents: Tensor, window: int | None) -> Any:
    """Return the mask of flex attention (Dong et al. 2024), which knows which blocks of pairs are empty."""
    from torch.nn.attention.flex_attention import create_block_mask

    samples, length = documents.shape

    def allowed(sample: Tensor, head: Tensor, query: Tensor, key: Tensor) -> Tensor:
        near = (query >= key) & (documents[sample, query] == documents[sample, key])
        return near & (query - key < window) if window else near

    on_gpu = documents.device.type == "cuda"  # compiled, it never holds all pairs
    return create_block_mask(allowed, samples, None, length, length, device=documents.device.type, _compile=on_gpu)


def packed_attention(module: Any, query: Tensor, key: Tensor, value: Tensor, attention_mask: Tensor | None, *,
                     dropout: float = 0.0, scaling: float | None = None, sliding_window: int | None = None,
                     packed: Packed | None = None, group: Any = None, **named: Any) -> tuple[Tensor, None]:
    """Attend causally within documents, as an attention function of transformers.

    Args:
        query: (samples, heads, length, head size); `key` and `value` likewise, of as many heads or a divisor.
        attention_mask: None, as the documents' ends say it.
        sliding_window: tokens that a query sees, itself included.
        packed: the documents; None: each sample is one.
        group: processes of which each has a part of each sample in training, in order.

    Returns (samples, length, heads, head size). Raises InputError: the model changes its scores."""
    if unknown := [name for name in _UNKNOWN if named.get(name) is not None]:
        raise InputError(f"attention=varlen does not know {unknown[0]} of {module.config.model_type}: set "
                         "attention=eager")
    samples, heads, length, size = query.shape
    shared = group is not None and module.training
    if packed is None:
        packed = Packed.whole(samples, length * group.size() if shared else length, query.device)
    window = sliding_window if sliding_window and sliding_window < packed.length else None
    kind = query.device.type
    dtype = torch.get_autocast_dtype(kind) if torch.is_autocast_enabled(kind) else query.dtype
    q, k, v = (each.to(dtype).transpose(1, 2).reshape(samples * length, each.shape[1], each.shape[3])
               for each in (query, key, value))
    if shared:
        start = group.rank() * length
        how = packed.part(samples, start, start + length), length, window, dropout, scaling
        pair = torch.cat([k, v], dim=-1).unflatten(0, (samples, length))
        whole: Tensor = GatheredAttention.apply(  # type: ignore[no-untyped-call]
            q, pair, size, group, _attend, _gradients, how)
    else:
        whole, _ = _attend(q, k, v, packed, length, window, dropout, scaling)
    return whole.view(samples, length, heads, value.shape[3]), None


def _attend(query: Tensor, key: Tensor, value: Tensor, packed: Packed, longest: int, window: int | None,
            dropout: float, scaling: float | None) -> tuple[Tensor, Tensor | None]:
    """Attend within documents of at most `longest` queries, all (tokens, heads, head size); of the kernel, returns what
    its backward needs as well."""
    if not has_kernel(query, dropout):
        return _by_pieces([query, key, value], packed, window, dropout, scaling), None
    from torch.nn.attention.varlen import AuxRequest, varlen_attn

    done: Any = varlen_attn(
        query, key, value, packed.starts, packed.ends, longest, packed.length, return_aux=AuxRequest(lse=True),
        scale=scaling, window_size=(window - 1 if window else -1, 0), enable_gqa=key.shape[1] != query.shape[1])
    return done[0], done[1]


def _gradients(gradient: Tensor, query: Tensor, key: Tensor, value: Tensor, output: Tensor, sums: Tensor,
               packed: Packed, longest: int, window: int | None, _: float, scaling: float | None) -> Any:
    """Return the gradients of queries, keys and values, as the kernel's own backward does."""
    drawn = torch.zeros(2, dtype=torch.uint64, device=query.device)  # for dropout, which there is none of
    return torch.ops.torch_attn._varlen_attn_backward(
        gradient, query, key, value, output, sums, packed.starts, packed.ends, longest, packed.length, window is None,
        drawn, scaling, [window - 1 if window else -1, 0])


def has_kernel(query: Tensor, dropout: float) -> bool:
    """Tell whether torch's FlashAttention for several lengths computes this: on GPUs since Ampere, in 16 bits."""
    half = query.dtype in (torch.bfloat16, torch.float16)
    return (query.is_cuda and half and not dropout and query.shape[2] <= 256
            and torch.cuda.get_device_capability(query.device) >= (8, 0))


@torch.compiler.disable  # type: ignore[untyped-decorator]  # pieces differ from batch to batch
def _by_pieces(flat: list[Tensor], packed: Packed, window: int | None, dropout: float, scaling: float | None) -> Tensor:
    """Attend piece by piece; tensors are (tokens, heads, head size). Each costs memory in proportion to its tokens."""
    query, key, value = (each.transpose(0, 1).unsqueeze(0) for each in flat)
    done = []
    for piece in packed.pieces(window, query.dtype):
        rows, columns = slice(piece.rows.start, piece.rows.stop), slice(piece.columns.start, piece.columns.stop)
        done.append(scaled_dot_product_attention(
            query[:, :, rows], key[:, :, columns], value[:, :, columns], piece.mask, dropout, piece.mask is None,
            scale=scaling, enable_gqa=query.shape[1] != key.shape[1]))
    return torch.cat(done, dim=2)[0].transpose(0, 1)
