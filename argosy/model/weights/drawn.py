"""Weights by name, each made or read alone; those that are drawn have the numbers of their whole model.

A model is made without memory (torch's device `meta`) while what writes into its weights is noted. What draws is done
for each tensor in its turn, in memory of its own, so that the next one gets its own numbers; done again from the same
random state it gives the same tensor."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple
from unittest.mock import patch

import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode

from argosy.core.errors import InputError
from argosy.model.weights.pretrained import random_model


class Numbers(Mapping[str, Tensor]):
    """Whole tensors by name, each made or read when it is asked for."""

    def read(self, name: str, start: Sequence[int], shape: Sequence[int]) -> Tensor:
        """Return the piece of tensor `name` that begins at `start` and has `shape`."""
        return self[name][slices(start, shape)]

    def check(self, name: str, part: Tensor) -> None:
        """Check a piece of tensor `name` that a process took. Raises InputError: it is not finite."""


def slices(start: Sequence[int], shape: Sequence[int]) -> tuple[slice, ...]:
    """Return the index of the piece that begins at `start` and has `shape`."""
    return tuple(slice(at, at + size) for at, size in zip(start, shape, strict=True))


def draw(config: Any) -> tuple[Any, Numbers]:
    """Make a causal model of a configuration of transformers without memory.

    Torch's generator ends as if the model had been made. Returns it, and the numbers that it would have by name,
    float32. Raises InputError: a weight is made in a way that cannot be repeated alone."""
    with without_memory() as made, _Draws(made) as draws:
        model = random_model(config)
    return model, Drawn(model, draws)


def bare(config: Any) -> Any:
    """Make a causal model of a configuration of transformers without memory; torch's generator stays as it is."""
    with torch.random.fork_rng(devices=[]), without_memory():
        return random_model(config)


class _Call(NamedTuple):
    """An operation that wrote into a tensor: with its random state, where it draws."""

    function: Any
    size: Any
    stride: Any
    offset: Any
    arguments: tuple[Any, ...]
    named: dict[str, Any]
    state: Tensor | None


First = dict[int, tuple[Tensor, Tensor]]  # a parameter without memory, and the numbers that it had


class Drawn(Numbers):
    """Weights that are made anew, each alone, by the operations that made them, from the random states of then."""

    def __init__(self, model: Any, draws: "_Draws") -> None:
        self._made: dict[str, tuple[Any, ...]] = {}
        for name, parameter in model.named_parameters():
            first, calls = draws.of(parameter)
            copied = any(isinstance(each, Tensor) and each.is_meta for call in calls for each in call.arguments)
            if copied or (first is None and not (calls and calls[0].size == tuple(parameter.shape))):
                raise InputError(f"the weight {name} of this {model.config.model_type} model is not made by operations "
                                 "that can be repeated alone: train it with engine=torch, on one device")
            self._made[name] = tuple(parameter.shape), parameter.dtype, first, calls

    def __getitem__(self, name: str) -> Tensor:
        shape, dtype, first, calls = self._made[name]
        tensor = torch.empty(shape, dtype=dtype) if first is None else first.clone()
        with torch.no_grad(), torch.random.fork_rng(devices=[]):
            for call in calls:
                if call.state is not None:
                    torch.set_rng_state(call.state)
                call.function(tensor.as_strided(call.size, call.stride, call.offset), *call.arguments, **call.named)
        return tensor

    def __iter__(self) -> Iterator[str]:
        return iter(self._made)

    def __len__(self) -> int:
        return len(self._made)


class _Draws(TorchDispatchMode):
    """Notes what writes into tensors without memory, and draws what it would draw, so that the next gets its own."""

    def __init__(self, first: First) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._first = first
        self._calls: dict[int, list[_Call]] = {}

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        named, target = kwargs or {}, args[0] if args else None
        if not isinstance(target, Tensor) or not target.is_meta or not func._schema.is_mutable:
            return func(*args, **named)
        random = torch.Tag.nondeterministic_seeded in func.tags
        calls = self._calls.setdefault(_key(target), [])
        if random and target.numel() * target.element_size() == target.untyped_storage().nbytes():
            calls.clear()  # nothing is left of what was there
        state = torch.get_rng_state() if random else None
        calls.append(_Call(func, tuple(target.shape), target.stride(), target.storage_offset(), args[1:], named, state))
        if random:
            func(torch.empty(target.shape, dtype=target.dtype), *args[1:], **named)
        return target

    def of(self, parameter: Tensor) -> tuple[Tensor | None, list[_Call]]:
        """Return what a parameter was before it lost its memory, where that was kept, and what wrote into it."""
        kept = self._first.get(_key(parameter))
        return kept[1] if kept else None, self._calls.get(_key(parameter), [])


def _key(tensor: Tensor) -> int:
    return tensor.untyped_storage()._cdata  # type: ignore[no-any-return]


@contextmanager
def without_memory() -> Iterator[First]:
    """Have each parameter lose its memory when a module gets it; buffers keep theirs.

    Yields of vectors, such as ones, the parameter and the numbers that it had: constructors fill those themselves."""
    register = nn.Module.register_parameter
    made: First = {}
    held = []  # so that no address is used twice

    def without(self: nn.Module, name: str, parameter: nn.Parameter | None) -> None:
        if parameter is not None and not parameter.is_meta:
            empty = nn.Parameter(parameter.detach().to("meta"), requires_grad=parameter.requires_grad)
            held.append(empty)
            if parameter.ndim == 1:
                made[_key(empty)] = empty, parameter.detach().clone()
            parameter = empty
        register(self, name, parameter)

    with patch.object(nn.Module, "register_parameter", without):
        yield made
