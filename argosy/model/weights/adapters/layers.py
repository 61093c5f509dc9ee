"""Adapters within a model of transformers: adding them, switching them off, their tensors, the merged weights.

PEFT's layers take the places of the linear layers, so the model keeps its class, and an engine trains what has
requires_grad. A weight's name is `X.base_layer.weight` then, an adapter's `X.lora_A.default.weight`."""

import math
import re
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from argosy.model.weights.adapters import LoRAConfig
from argosy.model.weights.adapters.places import places
from argosy.model.weights.chat import encode_prompt, end_tokens

ADAPTER = "default"  # PEFT's name of the only one
PREFIX = "base_model.model."  # of its names
_APART = 1e-3  # of the length of an embedding's row; rows that were ever trained are further apart
_ROWS = 8192  # of a table at a time, which is large
_RECORD = "argosy_adapters"  # the model's attribute that holds what follows
_SAVED = f".modules_to_save.{ADAPTER}."


@dataclass(frozen=True)
class Adapted:
    """Adapters of a model.

    Attributes:
        base: directory of the weights beside which they are trained.
        merge: whether an export has them merged.
        settings: PEFT's LoraConfig."""

    base: Path
    merge: bool
    settings: Any


def adapters_of(model: Any) -> Adapted | None:
    """Return what adapters `add_adapters` gave the model; None: it has none."""
    return getattr(model, _RECORD, None)


def add_adapters(model: Any, config: LoRAConfig, seed: int, base: Path, whole: Sequence[str] = ()) -> Any:
    """Put adapters beside the linear layers of a model's blocks and freeze all else; returns the model.

    The adapters are float32 and drawn from `seed`, the same on each device; at first they change no output.

    Args:
        base: directory that the weights come from, which an export names.
        whole: modules that are trained whole besides `modules_to_save`, such as a new head.

    Raises InputError: as `places`."""
    from peft import LoraConfig, TaskType

    targets, saved = places(model, config, whole)
    classifies = type(model).__name__.endswith("SequenceClassification")
    settings = LoraConfig(
        r=config.rank, lora_alpha=config.alpha, lora_dropout=config.dropout,  # type: ignore[arg-type]
        use_dora=config.kind == "dora", use_rslora=config.kind == "rslora", bias="none",
        target_modules=_short(model, targets), modules_to_save=saved or None,
        task_type=TaskType.SEQ_CLS if classifies else TaskType.CAUSAL_LM)  # fmt: skip
    inject(model, settings)
    generator = torch.Generator().manual_seed(seed)
    for _, layer in _layers(model):
        weight = layer.lora_A[ADAPTER].weight
        drawn = torch.empty(weight.shape)
        nn.init.kaiming_uniform_(drawn, a=math.sqrt(5), generator=generator)
        weight.data.copy_(drawn)
    for parameter in model.parameters():
        if parameter.requires_grad:
            parameter.data = parameter.data.float()
    setattr(model, _RECORD, Adapted(base, config.merge, settings))
    return model


def inject(model: Any, settings: Any) -> None:
    """Give the model the layers of PEFT's LoraConfig `settings`, trainable, all else frozen."""
    from peft import inject_adapter_in_model

    head, embedding = model.get_output_embeddings(), model.get_input_embeddings()
    tied = head is not None and head.weight is embedding.weight
    with torch.random.fork_rng(devices=[]), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Model has `tie_word_embeddings=True`")  # they are tied below
        inject_adapter_in_model(settings, model, ADAPTER)
    if tied and (copied := model.get_input_embeddings()) is not embedding:  # both were wrapped
        model.get_output_embeddings().modules_to_save[ADAPTER].weight = copied.modules_to_save[ADAPTER].weight


def _short(model: Any, names: Sequence[str]) -> list[str]:
    """Return the last parts of the names, where they name the same modules; else the names."""
    ends = sorted({name.rpartition(".")[2] for name in names})
    meant = {name for name, _ in model.named_modules() if name.rpartition(".")[2] in ends}
    return ends if meant == set(names) else sorted(names)


def tables_of_new_tokens(model: Any, tokenizer: Any) -> list[str]:
    """List the names of the embedding and of the output layer, where rows of a special token that the chat template
    writes, or that ends an answer, equal another token's: they have to be trained whole beside adapters.

    It says so on standard output."""
    written = {*encode_prompt(tokenizer, [{"role": "user", "content": "a"}]), *end_tokens(tokenizer)}
    tokens = sorted(written & tokenizer.added_tokens_decoder.keys())
    tables = {id(table): table for table in (model.get_input_embeddings(), model.get_output_embeddings())
              if table is not None}
    found = {name: equal for name, module in model.named_modules()
             if id(module) in tables and (equal := _equal_to_others(module.weight, tokens))}
    for name, equal in found.items():
        print(f"the rows of {', '.join(tokenizer.convert_ids_to_tokens(equal))} in {name} equal those of other tokens, "
              f"as of tokens that were just added: {name} is trained whole beside the adapters of lora", flush=True)
    return list(found)


@torch.no_grad()
def _equal_to_others(weight: Tensor, tokens: list[int]) -> list[int]:
    """List those of the tokens whose row is not apart from every other row."""
    found = []
    for token in tokens:
        row = weight[token]
        near = sum(int((torch.linalg.vector_norm(rows - row, dim=1) <= _APART * row.norm()).sum())
                   for rows in weight.split(_ROWS))
        if near > 1:
            found.append(token)
    return found


def _layers(model: Any) -> Iterator[tuple[str, Any]]:
    from peft.tuners.lora import LoraLayer

    return ((name, each) for name, each in model.named_modules() if isinstance(each, LoraLayer))


@contextmanager
def without_adapters(model: Any) -> Iterator[None]:
    """Let the model compute without its adapters, as the one that they were added to: the reference of a policy.

    What requires a gradient stays as it is, so that an engine's sharding is not disturbed."""
    from peft.tuners.tuners_utils import BaseTunerLayer
    from peft.utils.other import AuxiliaryTrainingWrapper

    switched = [each for each in model.modules() if isinstance(each, (BaseTunerLayer, AuxiliaryTrainingWrapper))]
    if not switched:
        raise ValueError("the model has no adapters")
    for each in switched:
        each._disable_adapters = True
    try:
        yield
    finally:
        for each in switched:
            each._disable_adapters = False


def peft_name(name: str) -> str | None:
    """Return the name of a trained tensor of the model's state in PEFT's files; None for one that is not trained."""
    name = f"{PREFIX}{name}"
    if ".lora_" in name:
        return name.replace(f".{ADAPTER}.weight", "" if ".lora_magnitude_vector." in name else ".weight")
    return name.replace(_SAVED, ".") if _SAVED in name else None


def _plain_name(name: str) -> str | None:
    """Return the name of a tensor in the model without adapters; None for one that it has not."""
    if any(part in name for part in (".lora_", ".original_module.", ".base_layer.weight.")):
        return None
    return name.replace(".base_layer.", ".").replace(_SAVED, ".")


def noting(weights: Iterable[tuple[str, Tensor]], trained: dict[str, Tensor]) -> Iterator[tuple[str, Tensor]]:
    """Pass on the weights of a model with adapters; those that are trained go to `trained` too, by PEFT's names, on the
    CPU, tied ones twice."""
    for name, tensor in weights:
        if peft := peft_name(name):
            trained[peft] = tensor.detach().clone().cpu().contiguous()
        yield name, tensor


def merged_weights(model: Any, weights: Iterable[tuple[str, Tensor]]) -> Iterator[tuple[str, Tensor]]:
    """Yield the weights of the model without adapters that computes the same, by its names, tied ones once, on the CPU.

    `weights`: the model's own, each whole, by sorted names, so that those of one layer are held at a time."""
    layers, tied = dict(_layers(model)), set(model.all_tied_weights_keys)
    for layer, group in groupby(weights, lambda pair: re.split(r"\.(?:base_layer|lora_\w+)\.", pair[0])[0]):
        parts = dict(group)
        if layer in layers:
            parts[f"{layer}.base_layer.weight"] = _merged(parts.get, layer, layers[layer])
        for name, tensor in parts.items():
            if (plain := _plain_name(name)) and plain not in tied:
                yield plain, tensor.detach().cpu().contiguous()


def _merged(get: Callable[[str], Tensor | None], name: str, layer: Any) -> Tensor:
    """Return the weight of one layer with its adapter: W + scale B A, in DoRA with rows of the trained lengths."""
    weights = [get(f"{name}.{part}.weight") for part in ("base_layer", f"lora_B.{ADAPTER}", f"lora_A.{ADAPTER}")]
    base, up, down = (each.detach() for each in weights if each is not None)
    if not base.is_floating_point():
        from peft.utils.integrations import dequantize_module_weight

        base = dequantize_module_weight(layer.get_base_layer()).detach().float().to(up.device)
    whole: Tensor = base + (up @ down) * layer.scaling[ADAPTER]
    lengths = get(f"{name}.lora_magnitude_vector.{ADAPTER}.weight")
    return whole if lengths is None else whole * (lengths.detach() / whole.norm(dim=1)).unsqueeze(1)


def merge(model: Any) -> Any:
    """Add the adapters to the weights of the model and take them out of it; returns the model."""
    from peft.utils import ModulesToSaveWrapper

    state = model.state_dict(keep_vars=True)
    for name, layer in list(_layers(model)):
        plain = layer.get_base_layer()
        plain.weight.data = _merged(state.get, name, layer)
        model.set_submodule(name, plain)
    for name, each in list(model.named_modules()):
        if isinstance(each, ModulesToSaveWrapper):
            model.set_submodule(name, each.modules_to_save[ADAPTER])
    model.requires_grad_(True)
    for left in ("peft_config", _RECORD):
        if hasattr(model, left):
            delattr(model, left)
    return model
