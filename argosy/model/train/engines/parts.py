"""A phase's tensors on the disk, and the model of an engine that holds parts of it.

Each process writes the pieces that it holds, with where they lie in the whole tensors, and reads the pieces that it
needs, whoever wrote them: what one engine wrote with four processes another reads with one. Nothing is sent, and none
ever holds the model. Of processes that hold the same piece one writes it."""

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import torch
import torch.distributed as dist
from torch import Tensor

from argosy.core.config.explain import grouped
from argosy.core.errors import StepError
from argosy.core.store.files import write_tensors
from argosy.model.train.parallelism import Group
from argosy.model.weights.drawn import Numbers

PART_BYTES = 2**28
WEIGHT = "weight"  # the first part of a weight's name; the others are the optimizer's: exp_avg, step, ...
_PATTERN = "tensors-*.safetensors"
_PLACES = "places"  # in a file's metadata: where each piece begins in its whole tensor, and the whole one's shape


class Place(NamedTuple):
    """Place of a piece in its whole tensor: where it begins, by dimension, and the whole tensor's shape."""

    start: tuple[int, ...]
    shape: tuple[int, ...]


def everywhere(shape: Sequence[int]) -> Place:
    """Return the place of a whole tensor."""
    return Place((0,) * len(shape), tuple(shape))


Held = tuple[str, Place, Callable[[], Tensor]]
"""Name of a tensor, the place of the piece that this process holds, and what makes it: each process that has the name
calls it, in the same order."""


_later: ContextVar[list["Write"] | None] = ContextVar("later", default=None)
_SMALL = 4096  # numbers of a tensor that is copied at once: engines may change it before the optimizer steps


class Write(NamedTuple):
    """A write that is due later: this process's bytes, and the call that does it."""

    nbytes: int
    run: Callable[[], None]


@contextmanager
def deferred() -> Iterator[list[Write]]:
    """Collect what `write_parts` would write, to be written before the optimizer steps again."""
    jobs: list[Write] = []
    token = _later.set(jobs)
    try:
        yield jobs
    finally:
        _later.reset(token)


def write_parts(directory: Path, group: Group, held: Iterable[Held]) -> None:
    """Write the pieces that the processes hold below `directory`, or have it written later where it is `deferred`;
    every process calls it."""
    every = list(held)
    owners = _owners(group.gathered([(name, place.start) for name, place, _ in every]))
    own = ((name, place, tensor) for name, place, make in every
           if (tensor := make().detach()) is not None and owners[name, place.start] == group.rank)  # fmt: skip
    if (jobs := _later.get()) is None:
        _write_all(directory, group.rank, own)
        return
    there = [(name, place, each if each.numel() > _SMALL else each.clone()) for name, place, each in own]
    jobs.append(Write(sum(each.nbytes for *_, each in there), partial(_write_all, directory, group.rank, there)))


def _write_all(directory: Path, rank: int, pieces: Iterable[tuple[str, Place, Tensor]]) -> None:
    """Write the tensors of one process into files of PART_BYTES or a little more."""
    kept: dict[str, Tensor] = {}
    places: dict[str, Place] = {}
    number = 0
    for name, place, tensor in pieces:
        if tensor.numel() or not tensor.ndim:
            kept[name], places[name] = tensor, place
        if sum(each.nbytes for each in kept.values()) >= PART_BYTES:
            _write(directory, rank, number, kept, places)
            kept, number = {}, number + 1
    if kept:
        _write(directory, rank, number, kept, places)


def _owners(keys: Sequence[Sequence[Any]]) -> dict[Any, int]:
    """Return which process writes each piece; `keys`: those that each process holds. They take turns."""
    holders = grouped((key, rank) for rank, own in enumerate(keys) for key in own)
    return {key: ranks[number % len(ranks)] for number, (key, ranks) in enumerate(holders.items())}


def _write(directory: Path, rank: int, number: int, held: dict[str, Tensor], places: dict[str, Place]) -> None:
    write_tensors({name: tensor.contiguous() for name, tensor in held.items()},
                  directory / f"tensors-{rank:05d}-{number:05d}.safetensors",
                  {_PLACES: json.dumps({name: places[name] for name in held})})


class Parts(Numbers):
    """The tensors of a state by name, put together of their pieces when they are asked for."""

    def __init__(self, directory: Path) -> None:
        """Open the files below `directory`. Raises StepError: there are none."""
        from safetensors import safe_open

        self._directory = directory
        self._pieces: dict[str, list[tuple[Any, tuple[int, ...]]]] = {}
        self._shapes: dict[str, tuple[int, ...]] = {}
        for path in sorted(directory.glob(_PATTERN)):
            file: Any = safe_open(path, "pt")
            places = json.loads((file.metadata() or {}).get(_PLACES, "{}"))
            for name in file.keys():  # noqa: SIM118
                start, shape = places.get(name) or everywhere(file.get_slice(name).get_shape())
                self._pieces.setdefault(name, []).append((file, tuple(start)))
                self._shapes[name] = tuple(shape)
        if not self._pieces:
            raise StepError(f"{directory} is the state of an earlier version of Argosy: delete {directory.parent} to "
                            "begin the phase again")

    def __getitem__(self, name: str) -> Tensor:
        return self.read(name, *everywhere(self._shapes[name]))

    def __iter__(self) -> Iterator[str]:
        return iter(self._pieces)

    def __len__(self) -> int:
        return len(self._pieces)

    def shape(self, name: str) -> tuple[int, ...]:
        """Return the shape of the whole tensor."""
        return self._shapes[name]

    def read(self, name: str, start: Sequence[int], shape: Sequence[int]) -> Tensor:
        found, left = None, 1
        for file, at in self._pieces[name]:
            if not shape:
                return file.get_tensor(name)  # type: ignore[no-any-return]
            piece = file.get_slice(name)
            low = [max(ours, theirs) for ours, theirs in zip(start, at, strict=True)]
            high = [min(ours + size, theirs + there) for ours, size, theirs, there in
                    zip(start, shape, at, piece.get_shape(), strict=True)]
            if found is None:
                found = torch.empty(shape, dtype=piece[:0].dtype)
                left = found.numel()
            if all(a < b for a, b in zip(low, high, strict=True)):
                part = piece[_slices(low, high, at)]
                found[_slices(low, high, start)] = part
                left -= part.numel()
        if found is None or left:
            raise StepError(f"{self._directory} lacks a part of {name}: delete it, and the step goes on from the state "
                            "before")
        return found

    def kinds(self, parameter: str) -> list[str]:
        """List what the optimizer keeps of a parameter, by the names that it has there."""
        kinds = [name.partition("/")[0] for name in self._pieces if name.partition("/")[2] == parameter]
        return sorted(kind for kind in kinds if kind != WEIGHT and "@" not in kind)


def _slices(low: Sequence[int], high: Sequence[int], start: Sequence[int]) -> tuple[slice, ...]:
    return tuple(slice(a - at, b - at) for a, b, at in zip(low, high, start, strict=True))


class WholeModel:
    """A plain model of transformers with an engine's weights.

    Where every process holds the whole model it is the engine's own; else a copy, which `refresh` brings up to date.

    Args:
        plain: makes the copy's model, on the engine's device; called only where the engine holds parts."""

    def __init__(self, engine: Any, plain: Any) -> None:
        self._engine, self._plain = engine, plain
        self.shared = engine.holds_whole
        self._model: Any = engine.module.model if self.shared else plain()
        self._copy: Any = None

    def refresh(self) -> Any:
        """Return the model with the weights as they are now, in evaluation mode; every process calls this."""
        if not self.shared:
            own = dict(self._model.named_parameters())
            with torch.no_grad():
                if self._engine.config.pipeline_parallel > 1:
                    self._send(own)
                else:
                    for name, whole in self._engine.weights_by_name():
                        own[name].copy_(whole())
        self._model.eval()
        return self._model

    def copied(self) -> Any:
        """Return a model with the weights as they are now, which updates leave alone until this is called again: to
        generate with while the engine trains. Weights that are frozen, as beside adapters, are not copied."""
        model = self.refresh()
        if not self.shared:
            return model
        if self._copy is None:
            self._copy = self._plain()
            _share(self._copy, model)
            self._copy.set_attn_implementation(model.config._attn_implementation)
        with torch.no_grad():
            for (_, own), (_, there) in zip(_tensors(self._copy), _tensors(model), strict=True):
                if own.data_ptr() != there.data_ptr():
                    own.copy_(there)
        if (device := self._engine.group.device).type != "cpu":
            torch.get_device_module(device).current_stream().synchronize()  # another stream reads it
        self._copy.eval()
        return self._copy

    def _send(self, own: dict[str, Any]) -> None:
        """Take over what the first process collects of the stages of a pipeline, none of which has all."""
        weights = dict(self._engine.weights())
        for name, parameter in own.items():
            if name in weights:
                parameter.copy_(weights[name])
            dist.broadcast(parameter, 0)


def _tensors(model: Any) -> Iterator[tuple[str, Tensor]]:
    """Yield parameters and buffers by name, tied ones once."""
    yield from model.named_parameters()
    yield from model.named_buffers()


def _share(copy: Any, model: Any) -> None:
    """Give the parameters of `copy` the precision of the model's, and those that are frozen there their memory."""
    trained = dict(model.named_parameters())
    for name, own in copy.named_parameters():
        there = trained[name]
        own.data = there.data.clone() if there.requires_grad else there.data
        own.requires_grad_(there.requires_grad)  # by which torch chooses among kernels, whose last bits differ

