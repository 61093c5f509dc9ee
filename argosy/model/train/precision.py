"""Precision of a device's matrix products: refusals, TensorFloat-32, 8 bits, bfloat16 on a CPU.

A CPU may have no instructions for bfloat16. torch then multiplies number by number, 20 to 50 times slower than in
float32. What the instructions compute is cheap to repeat: a product of two bfloat16 numbers is exact in float32, sums
are float32, and the result is rounded once."""

import functools
import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from argosy.core.errors import InputError
from argosy.core.step.machine import missing

if TYPE_CHECKING:
    import torch

    from argosy.model.train.config.numerics import NumericsConfig

PRODUCTS = ("mm", "mm.out", "bmm", "addmm", "baddbmm")
ATTENTION = "_scaled_dot_product_flash_attention_for_cpu"  # its second result, the logarithms of the sums, is float32
ROWS = "embedding_dense_backward"  # which a CPU adds token by token in the weights' own precision, a GPU in float32
_ADA, _AMPERE = (8, 9), (8, 0)  # compute capabilities


def set_precision(model: Any, config: "NumericsConfig", device: "torch.device") -> None:
    """Bring the process and the linear layers of `model`'s blocks to the config's precision.

    Raises InputError: the device, or what is installed, cannot compute it; says what can."""
    import torch

    from argosy.model.train.layers.experts import mixtures

    speed_up_bfloat16()
    if device.type == "cpu" and "bfloat16" in (config.weights_dtype, config.zero.param_dtype):
        _replace(ROWS)
    capability = torch.cuda.get_device_capability(device) if device.type == "cuda" else None
    if problem := _problem(config, capability):
        raise InputError(problem)
    if config.tf32:
        torch.set_float32_matmul_precision("high")
    if config.fp8 and mixtures(model):
        raise InputError(f"fp8=true computes linear layers, and the experts of this model ({model.config.model_type}) "
                         "are none: set fp8=false")
    if config.weights_dtype == "bfloat16":
        _to_bfloat16(model, device)
    if config.fp8:
        _to_float8(model, gathered=config.gathers_8_bits)


def _problem(config: "NumericsConfig", capability: tuple[int, int] | None) -> str:
    """Say what the device lacks. `capability`: of the GPU; None: it is a CPU."""
    if capability is None:
        return config.cpu_problem()
    where = "this GPU is of {}.{}".format(*capability)
    if config.tf32 and capability < _AMPERE:
        return f"tf32=true needs a GPU of compute capability 8.0 or more, and {where}: set tf32=false"
    if config.fp8 and capability < _ADA:
        return f"fp8=true needs a GPU of compute capability 8.9 or more, and {where}: set fp8=false"
    return missing({"fp8": config.fp8}, "torchao")


def quantization(device: "torch.device", dtype: str) -> dict[str, Any]:
    """Return how weights are loaded on a device as NF4 numbers of 4 bits with scales of 8 (Dettmers et al. 2023), for
    products in `dtype`.

    Raises InputError: bitsandbytes is not installed."""
    if problem := missing({"lora": {"kind": "qlora"}}, "bitsandbytes"):
        raise InputError(problem)
    import torch
    from transformers import BitsAndBytesConfig

    config = BitsAndBytesConfig(load_in_4bit=True, bnb_4bit_quant_type="nf4", bnb_4bit_use_double_quant=True,
                                bnb_4bit_compute_dtype=getattr(torch, dtype))
    return {"quantization_config": config, "device_map": {"": device}}


def _to_float8(model: Any, *, gathered: bool) -> None:
    """Replace the linear layers of the blocks, whose sides 16 divides; weights stay as they are. What FSDP2 shards is
    `gathered` as the products take it."""
    from torchao.float8 import Float8LinearConfig, convert_to_float8_training

    head = model.get_output_embeddings()

    def fits(module: Any, name: str) -> bool:
        return module is not head and module.in_features % 16 == module.out_features % 16 == 0

    config = Float8LinearConfig(enable_fsdp_float8_all_gather=gathered)
    convert_to_float8_training(model, config=config, module_filter_fn=fits)


def _to_bfloat16(model: Any, device: "torch.device") -> None:
    """Round the weights; what runs between the blocks stays float32, as do the norms' gradients, and their results but
    for those of queries and keys. Outside of autocast, as when answers are generated, all is bfloat16.

    Raises InputError: a CPU cannot."""
    import torch

    if device.type == "cpu" and any(isinstance(each, torch.nn.LayerNorm) for each in model.modules()):
        raise InputError(f"optimizer=adamw_bf16 needs a GPU for {model.config.model_type} models, as a CPU's LayerNorm "
                         "has inputs and weights of one precision: set optimizer=adamw")
    for parameter in model.parameters():
        parameter.data = parameter.data.bfloat16()
    model.get_input_embeddings().register_forward_hook(
        lambda *given: given[-1].float() if torch.is_autocast_enabled(given[-1].device.type) else given[-1])


def speed_up_bfloat16() -> None:
    """Make torch multiply bfloat16 matrices on the CPU in float32, forward and backward, for the whole process.

    Where the CPU has the instructions nothing changes, so results there stay as they are."""
    import torch

    if torch.backends.mkldnn.is_available() and not torch.ops.mkldnn._is_mkldnn_bf16_supported():
        _replace(*PRODUCTS, ATTENTION, f"{ATTENTION}_backward")


@functools.cache
def _replace(*names: str) -> Any:
    """Let these kernels of the CPU compute in float32; returns the library that keeps them alive."""
    from torch.library import Library

    library = Library("aten", "IMPL")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch warns of every kernel that is replaced
        for name in names:
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
