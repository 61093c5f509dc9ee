"""Modules of a model by name, as a config writes them: those that get adapters, are trained whole, or stay as they are.

The model may be without memory (torch's device `meta`), so that names are checked before anything is loaded."""

from collections.abc import Sequence
from fnmatch import fnmatchcase
from typing import Any

from torch import nn

from argosy.core.errors import InputError
from argosy.model.weights.adapters import LoRAConfig


def places(model: Any, config: LoRAConfig, whole: Sequence[str] = ()) -> tuple[list[str], list[str]]:
    """List the names of the linear layers that get adapters, and of the modules that are trained whole. Raises
    InputError: one is not there, or the rank is beyond a layer's."""
    targets = _targets(model, config.targets)
    layers = {name: model.get_submodule(name) for name in targets}  # whose weight may be packed
    sides = {name: min(layer.in_features, layer.out_features) for name, layer in layers.items()}
    narrow = min(sides, key=lambda name: sides[name])
    if config.rank > sides[narrow]:
        raise InputError(f"lora.rank={config.rank} is more than the smaller side of {narrow}, allowed: 1 to "
                         f"{sides[narrow]}, the most that its weight can have, or lora.targets without it")
    return targets, _around_blocks(model, (*config.modules_to_save, *whole))


def _targets(model: Any, targets: Sequence[str]) -> list[str]:
    """List the names of the linear layers that get adapters. Raises InputError: a target is none."""
    blocks = _blocks_name(model)
    linear = [name for name, module in model.named_modules()
              if isinstance(module, nn.Linear) and name.startswith(f"{blocks}.")]
    chosen: set[str] = set()
    for target in targets:
        found = [name for name in linear if target == "all" or _matches(name, target)]
        if not found:
            there = ", ".join(dict.fromkeys(name.rpartition(".")[2] for name in linear))
            raise InputError(f"lora.targets names {target!r}, which is no linear layer of the blocks of this "
                             f"{model.config.model_type} model, allowed: all, {there}, or whole names such as "
                             f"{linear[0]}, with * for any text")
        chosen.update(found)
    return [name for name in linear if name in chosen]


def _around_blocks(model: Any, wanted: Sequence[str]) -> list[str]:
    """List the full names of the modules `wanted`; of tied ones both. Raises InputError: one is not there."""
    blocks = _blocks_name(model)
    there = [name for name, module in model.named_modules()
             if name and not name.startswith(f"{blocks}.") and list(module.parameters(recurse=False))]
    found: list[str] = []
    for each in wanted:
        names = [name for name in there if name == each or name.endswith(f".{each}")]
        if not names:
            raise InputError(f"lora.modules_to_save names {each!r}, which this {model.config.model_type} model does "
                             f"not have around its blocks, allowed: {', '.join(there)}")
        found += names
    for one, other in model.all_tied_weights_keys.items():
        pair = [name.rpartition(".")[0] for name in (one, other)]
        if set(pair) & set(found):
            found += pair
    return list(dict.fromkeys(found))


def freeze(model: Any, modules: Sequence[str], *, some: bool = False) -> None:
    """Let the weights of the modules that match stay as they are; tied ones both. `some`: the model may lack them, as
    one with another head does. Raises InputError: a name matches no module with weights, or all are frozen."""
    if not modules:
        return
    weighty = {name: each for name, each in model.named_modules() if name and any(True for _ in each.parameters())}
    for wanted in modules:
        found = [name for name in weighty if _matches(name, wanted)]
        if not found and not some:
            there = dict.fromkeys(end for name in weighty if not (end := name.rpartition(".")[2]).isdigit())
            raise InputError(f"frozen names {wanted!r}, which is no module with weights of this "
                             f"{model.config.model_type} model, allowed: {', '.join(there)}, or whole names such as "
                             f"{_blocks_name(model)}.0, with * for any text")
        for name in found:
            weighty[name].requires_grad_(False)
    if not any(each.requires_grad for each in model.parameters()):
        raise InputError(f"frozen={list(modules)} leaves nothing to train: leave a module out")
    for name in model.all_tied_weights_keys:
        if not model.get_parameter(name).requires_grad:
            print(f"frozen: {name} is one tensor with the weights that it is tied to, and so both stay", flush=True)


def _blocks_name(model: Any) -> str:
    """Return the name of the list of blocks: the longest list of modules of the decoder."""
    lists = [each for each in model.get_decoder().children() if isinstance(each, nn.ModuleList)]
    longest = max(lists, key=len)
    names: dict[int, str] = {id(module): name for name, module in model.named_modules()}
    return names[id(longest)]


def _matches(name: str, pattern: str) -> bool:
    """Tell whether a pattern is of a module's whole name, or of its last parts."""
    return fnmatchcase(name, pattern) or fnmatchcase(name, f"*.{pattern}")
