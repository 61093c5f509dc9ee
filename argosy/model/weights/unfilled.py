"""Models whose weights have no memory yet (torch's device `meta`), and where the numbers of each weight come from.

A process that holds a part of a model makes all of it so, cuts it, and takes one tensor at a time: memory is the part
and a tensor, whatever the size of the model."""

from collections.abc import Callable, Iterator, Sequence
from copy import deepcopy
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from argosy.model.weights.adapters.files import is_adapter
from argosy.model.weights.drawn import Numbers, bare, draw, slices
from argosy.model.weights.load import check_finite, load_model
from argosy.model.weights.pretrained import loading, random_model

_RECORD = "argosy_numbers"  # the model's attribute that holds them


def numbers_of(model: Any) -> Numbers | None:
    """Return the numbers that a model without memory is to be filled with; None: it has its own."""
    return getattr(model, _RECORD, None)


def unfilled_random(config: Any) -> Any:
    """Make a causal model of a configuration of transformers without memory; its numbers are those of `random_model`,
    drawn from torch's generator as it is now, which ends as if the model had been made.

    Raises InputError: a weight is made in a way that cannot be repeated alone."""
    model, numbers = draw(config)
    setattr(model, _RECORD, numbers)
    return model


def unfilled(path: Path) -> Any:
    """Return the model of the checkpoint in `path` without memory, checked as `load_model` does; its numbers are read
    from the files. One whose files cannot be read a tensor at a time is loaded whole.

    Raises as `load_model`; what is not finite is refused by `Numbers.check`."""
    files = sorted(path.glob("*.safetensors"))
    if is_adapter(path) or not files:
        return load_model(path)
    model = load_model(path, device_map="meta")
    for own, there in zip(model.modules(), bare(model.config).modules(), strict=True):
        own._buffers.update(there._buffers)  # of rotary embeddings, which no file has
    setattr(model, _RECORD, Files(model, path, files))
    return model


def like(model: Any, config: Any) -> Any:
    """Return a model of `config` with the weights of `model`, whose shapes are the same."""
    numbers = numbers_of(model)
    if numbers is None:
        made = random_model(config)
        made.load_state_dict(model.state_dict())
        return made
    made = bare(config)
    setattr(made, _RECORD, numbers)
    return made


def give_memory(module: nn.Module, device: torch.device, fill: Callable[[nn.Parameter, nn.Parameter], None]) -> None:
    """Give each parameter that has none memory on the device; tied ones stay tied.

    `fill`: called with the bare parameter and the one in its place, before the next gets memory."""
    made: dict[int, nn.Parameter] = {}
    for each in module.modules():
        for name, old in each._parameters.items():
            if old is None or not old.is_meta:
                continue
            if id(old) not in made:
                new = nn.Parameter(torch.empty_like(old, device=device), requires_grad=old.requires_grad)
                new.__dict__.update(old.__dict__)
                fill(old, new)
                made[id(old)] = new
            each._parameters[name] = made[id(old)]


class Files(Numbers):
    """Weights in safetensors files, by the names that transformers gives them in a model; float32."""

    def __init__(self, model: Any, path: Path, files: list[Path]) -> None:
        from safetensors import safe_open
        from transformers.conversion_mapping import get_model_conversion_mapping
        from transformers.core_model_loading import WeightConverter, dot_natural_key, rename_source_key

        self._model, self._path = model, path
        with loading(path):
            opened: list[Any] = [safe_open(file, "pt") for file in files]
            where: dict[str, Any] = {key: file for file in opened for key in file.keys()}  # noqa: SIM118
        mapping = get_model_conversion_mapping(model)
        converters = [each for each in mapping if isinstance(each, WeightConverter)]
        renamings: list[Any] = [each for each in mapping if not isinstance(each, WeightConverter)]
        self._converters = {source: each for each in converters for source in each.source_patterns}
        there = dict(model.named_parameters())
        self._parts: dict[str, list[tuple[str, Any, Any]]] = {name: [] for name in there}
        for key in sorted(where, key=dot_natural_key):
            name, source = rename_source_key(key, renamings, converters, model.base_model_prefix, there)
            if name in there:
                self._parts[name].append((key, source, where[key]))

    def __getitem__(self, name: str) -> Tensor:
        parts = self._parts[name]
        with loading(self._path):
            first = parts[0][1]
            if first is None:
                tensor = parts[0][2].get_tensor(parts[0][0])
            else:  # as of experts, which files have one by one
                converter = deepcopy(self._converters[first])
                for key, source, file in parts:
                    read: Any = partial(file.get_tensor, key)
                    converter.add_tensor(name, key, source, read)
                tensor = converter.convert(name, model=self._model, config=self._model.config)[name]
        return tensor.float()  # type: ignore[no-any-return]

    def read(self, name: str, start: Sequence[int], shape: Sequence[int]) -> Tensor:
        key, converted, file = self._parts[name][0]
        if converted is not None:
            return super().read(name, start, shape)
        with loading(self._path):
            piece = file.get_slice(key)[slices(start, shape)]
        return piece.float()  # type: ignore[no-any-return]

    def check(self, name: str, part: Tensor) -> None:
        check_finite(self._path, [(name, part)])

    def __iter__(self) -> Iterator[str]:
        return iter(self._parts)

    def __len__(self) -> int:
        return len(self._parts)
