"""Matrix products in bfloat16 on a CPU that has no instructions for them.

torch then multiplies number by number, 20 to 50 times slower than in float32. What the instructions compute is cheap to
repeat: a product of two bfloat16 numbers is exact in float32, sums are float32, and the result is rounded once."""

import functools
import warnings
from collections.abc import Callable
from typing import Any

PRODUCTS = ("mm", "mm.out", "bmm", "addmm", "baddbmm")
ATTENTION = "_scaled_dot_product_flash_attention_for_cpu"  # its second result, the logarithms of the sums, is float32


@functools.cache
def speed_up_bfloat16() -> Any:
    """Make torch multiply bfloat16 matrices on the CPU in float32, forward and backward, for the whole process.

    Where the CPU has the instructions nothing is changed, so results there stay as they are.

    Returns:
        The library that keeps the replaced kernels alive; None where none was replaced."""
    import torch
    from torch.library import Library

    if not torch.backends.mkldnn.is_available() or torch.ops.mkldnn._is_mkldnn_bf16_supported():
        return None
    library = Library("aten", "IMPL")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch warns of every kernel that is replaced
        for name in (*PRODUCTS, ATTENTION, f"{ATTENTION}_backward"):
            library.impl(name, _in_float32(name), "CPU", with_keyset=True)
    return library


def _in_float32(name: str) -> Callable[..., Any]:
    """Return the CPU's kernel `name`, which for bfloat16 computes in float32 and rounds its bfloat16 results."""
    import torch
    from torch.library import get_kernel

    kernel = get_kernel(f"aten::{name}", "CPU")

    def widen(value: Any) -> Any:
        return value.float() if isinstance(value, torch.Tensor) and value.dtype == torch.bfloat16 else value

    def call(keys: Any, *arguments: Any, **named: Any) -> Any:
        if arguments[0].dtype != torch.bfloat16:
            return kernel.call_boxed(keys, *arguments, **named)
        target = named.pop("out", None)
        if target is not None:
            named["out"] = torch.empty_like(target, dtype=torch.float32)
        result = kernel.call_boxed(keys, *map(widen, arguments), **{key: widen(one) for key, one in named.items()})
        if target is not None:
            return target.copy_(result)
        if isinstance(result, torch.Tensor):
            return result.bfloat16()
        kept = 1 if name == ATTENTION else len(result)
        return (*(one.bfloat16() for one in result[:kept]), *result[kept:])

    return call
