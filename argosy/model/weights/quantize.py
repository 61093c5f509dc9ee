"""Weights of linear layers in fewer bits, in the layout of compressed-tensors, which vLLM and SGLang compute with.

Weights are rounded to nearest, with a scale for each output (int8, fp8) or each group of inputs (int4). awq is int4 of
weights whose inputs were scaled beforehand by how large they are on calibration text (Lin et al. 2023, "AWQ:
Activation-aware Weight Quantization"). Activations, embedding, norms and output layer keep their precision."""

from collections.abc import Iterator, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from argosy.core.errors import InputError
from argosy.core.lazy import Tensor, torch
from argosy.core.store.files import read_record
from argosy.model.weights.pretrained import load_config

METHODS = ("int8", "int4", "awq", "fp8")
BLOCKS = ("llama", "mistral", "qwen2", "qwen3")  # types whose blocks `_pairs` knows
EXPONENTS = 20  # that awq tries, as its authors
GROUPS = (128, 64, 32)  # inputs that share a scale, of int4; what the kernels of vLLM take
LAYOUT = "compressed-tensors"


def quantization_of(path: Path) -> str:
    """Name the library by whose layout the weights in `path` are quantized, as config.json says; "" for whole ones."""
    found = read_record(path / "config.json").get("quantization_config")
    return str(found.get("quant_method", "unknown")) if isinstance(found, dict) else ""


def whole_again(path: Path) -> dict[str, Any]:
    """Return the arguments of from_pretrained by which weights that `save` wrote are unpacked as they are loaded: every
    computation here is then that of a whole model. Of other weights there are none.

    Raises InputError: the package that unpacks them is not installed."""
    if quantization_of(path) != LAYOUT:
        return {}
    require(f"checkpoint {path} is in the layout of {LAYOUT}, which the package of that name unpacks")
    config = load_config(path)
    config.quantization_config["dequantize"] = True
    return {"config": config}


def require(why: str) -> None:
    """Check that compressed-tensors is installed. Raises InputError: it is not; says what to install."""
    if find_spec("compressed_tensors") is None:
        raise InputError(f"{why}: {LAYOUT} is not installed; install it (pip install 'argosy[quantize]', or pip "
                         f"install {LAYOUT})")


def check(model: Any, method: str, group: int | None) -> int:
    """Check that `quantize` can quantize the model, and return the inputs that share a scale; 0: all of an output.
    Raises InputError: the model has experts, a layer's width has no such groups, or awq does not know its blocks."""
    if any(weight.ndim > 2 for weight in model.parameters()):
        raise InputError("the model has experts whose weights are no linear layers, which would keep their precision "
                         "and nearly all of its bytes: quantize a model without experts")
    if method == "awq" and model.config.model_type not in BLOCKS:
        raise InputError(f"method is awq, which scales the blocks of {', '.join(BLOCKS)} alone, and the model is of "
                         f"the type {model.config.model_type}: set method=int4")
    if method not in ("int4", "awq"):
        if group:
            raise InputError(f"group_size is {group}, and {method} has one scale for each output: leave it out")
        return 0
    widths = sorted({layer.in_features for layer in _layers(model)})
    fitting = [size for size in GROUPS if not any(width % size for width in widths)]
    if not fitting or group not in (None, *fitting):
        some = ", ".join(map(str, fitting)) or f"and none of {', '.join(map(str, GROUPS))} does: set method=int8"
        raise InputError(f"group_size is {group}, and its layers have {', '.join(map(str, widths))} inputs; allowed: "
                         f"what divides all of them, {some}")
    return group or fitting[0]


def quantize(model: Any, method: str, group: int, dtype: str) -> None:
    """Put packed integers and scales in the place of the weights of a float32 model's linear layers.

    `group`: as `check` returns it. `dtype`: precision that the scales are saved in: weights are rounded to what these
    scales make, and not to what they would have made."""
    from compressed_tensors.compressors import compress_module
    from compressed_tensors.quantization import QuantizationConfig, QuantizationScheme, apply_quantization_config

    args, layers = _args(method, group), _layers(model)
    scheme = QuantizationScheme(targets=["Linear"], weights=args)
    config = QuantizationConfig(config_groups={"group_0": scheme}, ignore=_ignored(model))
    apply_quantization_config(model, config, show_progress=False)
    with torch.no_grad():
        for layer in layers:
            layer.weight_scale.copy_(_scales(layer.weight, args)[0].to(getattr(torch, dtype)))
            compress_module(layer)


def _args(method: str, group: int) -> Any:
    from compressed_tensors.quantization import QuantizationArgs

    parts: dict[str, Any] = {"strategy": "group", "group_size": group} if group else {"strategy": "channel"}
    return QuantizationArgs(num_bits=4 if group else 8, type="float" if method == "fp8" else "int", symmetric=True,
                            **parts)


def _scales(weight: Tensor, args: Any) -> tuple[Tensor, Tensor]:
    """Return the scales, and the zero points, by which the largest weight of each output or group is the last number
    that the bits have."""
    from compressed_tensors.quantization.utils import calculate_qparams

    ends = weight.unflatten(-1, (-1, args.group_size or weight.shape[-1])).aminmax(dim=-1)
    found: tuple[Tensor, Tensor] = calculate_qparams(ends.min, ends.max, args)
    return found


def save(model: Any, directory: Path, dtype: str) -> None:
    """Write a quantized model, with the layout's record in config.json."""
    from compressed_tensors.compressors import ModelCompressor

    from argosy.model.weights.export import save_weights

    save_weights(model, directory, dtype=dtype)
    ModelCompressor.from_pretrained_model(model).update_config(str(directory))


def scale_inputs(model: Any, rows: Sequence[Tensor], group: int) -> None:
    """Scale the inputs of a float32 model's linear layers, and their weights the other way, for int4 weights that lose
    less of the model's answers to `rows` of token ids: what it computes stays the same.

    The inputs of all layers are kept meanwhile."""
    pairs = list(_pairs(model))
    inputs = _inputs(model, [after[0] for _, after in pairs], rows)
    with torch.no_grad():
        for before, after in pairs:
            scales = search(inputs.pop(after[0]), torch.cat([layer.weight for layer in after]), group)
            for layer in after:
                layer.weight.mul_(scales)
            before.weight.div_(scales if before.weight.ndim == 1 else scales[:, None])
            if getattr(before, "bias", None) is not None:
                before.bias.div_(scales)


def search(inputs: Tensor, weight: Tensor, group: int) -> Tensor:
    """Return the scales of a layer's inputs, of EXPONENTS powers of their mean size, with which int4 weights change its
    outputs least: of `inputs`, (tokens, width), by `weight`, (outputs, width)."""
    from compressed_tensors.quantization.lifecycle.forward import fake_quantize

    args, wanted = _args("awq", group), inputs @ weight.T
    best, least = torch.ones_like(weight[0]), float("inf")
    for step in range(EXPONENTS):
        scales = inputs.abs().mean(0).pow(step / EXPONENTS).clamp(min=1e-4)
        scales /= (scales.max() * scales.min()).sqrt()
        scaled = weight * scales
        parts, zero = _scales(scaled, args)
        error = float(((inputs / scales) @ fake_quantize(scaled, parts, zero, args).T - wanted).pow(2).mean())
        best, least = (scales, error) if error < least else (best, least)
    return best


def _pairs(model: Any) -> Iterator[tuple[Any, list[Any]]]:
    """Yield what makes the inputs of linear layers, and these layers. Keys of several heads share their values with
    queries: the output of attention has no scales of its own there."""
    for block in model.model.layers:
        attention, mlp = block.self_attn, block.mlp
        yield block.input_layernorm, [attention.q_proj, attention.k_proj, attention.v_proj]
        if attention.v_proj.out_features == attention.o_proj.in_features:
            yield attention.v_proj, [attention.o_proj]
        yield block.post_attention_layernorm, [mlp.gate_proj, mlp.up_proj]
        yield mlp.up_proj, [mlp.down_proj]


def _inputs(model: Any, layers: Sequence[Any], rows: Sequence[Tensor]) -> dict[Any, Tensor]:
    """Return the inputs of layers, (tokens, width), as the model reads `rows`."""
    found: dict[Any, list[Tensor]] = {layer: [] for layer in layers}
    hooks = [layer.register_forward_pre_hook(lambda each, given: found[each].append(given[0].flatten(0, -2)))
             for layer in layers]
    try:
        with torch.inference_mode():
            for row in rows:
                model(input_ids=row[None].to(model.device), use_cache=False, logits_to_keep=1)
    finally:
        for hook in hooks:
            hook.remove()
    return {layer: torch.cat(some) for layer, some in found.items()}


def _layers(model: Any) -> list[Any]:
    ignored = set(_ignored(model))
    return [each for name, each in model.named_modules() if type(each) is torch.nn.Linear and name not in ignored]


def _ignored(model: Any) -> list[str]:
    """Name the output layer, whose rounding costs most of all."""
    head = model.get_output_embeddings()
    return [name for name, each in model.named_modules() if each is head]
