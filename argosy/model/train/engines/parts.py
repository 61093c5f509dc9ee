"""A phase's tensors on the disk, and the model of an engine that holds parts of it: whole, whatever the engine is.

What one engine wrote with four processes another reads with one. A tensor is put together when its turn comes and is
written by one of the processes, so that none ever holds the model."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from argosy.core.errors import StepError
from argosy.model.train.parallelism import Group

PART_BYTES = 2**28
WEIGHT = "weight"  # the first part of a weight's name; the others are the optimizer's: exp_avg, step, ...
_PATTERN = "tensors-*.safetensors"

Whole = Callable[[], Tensor]  # puts a tensor together; each process calls it, in the same order


def write_parts(directory: Path, group: Group, tensors: Iterable[tuple[str, Whole]], sharers: int) -> None:
    """Write `tensors` (name, and how it is put together) below `directory`; those of `sharers` processes in a row that
    have the same tensors take turns."""
    held: dict[str, Tensor] = {}
    size = number = 0
    for index, (name, whole) in enumerate(tensors):
        tensor = whole()
        if index % sharers == group.rank % sharers:
            held[name] = tensor.detach().cpu().contiguous()
            size += tensor.nbytes
        if size >= PART_BYTES:
            _write(directory, group.rank, number, held)
            held, size, number = {}, 0, number + 1
    if held:
        _write(directory, group.rank, number, held)


def _write(directory: Path, rank: int, number: int, held: dict[str, Tensor]) -> None:
    from safetensors.torch import save_file

    save_file(held, directory / f"tensors-{rank:05d}-{number:05d}.safetensors")


class Parts(Mapping[str, Tensor]):
    """The tensors of a state by name, each read when it is asked for."""

    def __init__(self, directory: Path) -> None:
        """Open the files below `directory`. Raises StepError: there are none."""
        from safetensors import safe_open

        self._files: list[Any] = [safe_open(path, "pt") for path in sorted(directory.glob(_PATTERN))]
        self._where = {name: file for file in self._files for name in file.keys()}  # noqa: SIM118
        if not self._where:
            raise StepError(f"{directory} is the state of an earlier version of Argosy: delete {directory.parent} to "
                            "begin the phase again")

    def __getitem__(self, name: str) -> Tensor:
        tensor: Tensor = self._where[name].get_tensor(name)
        return tensor

    def __iter__(self) -> Iterator[str]:
        return iter(self._where)

    def __len__(self) -> int:
        return len(self._where)

    def of(self, parameter: str) -> dict[str, Tensor]:
        """Return what the optimizer keeps of a parameter, by its name there."""
        kinds = [name.partition("/")[0] for name in self._where if name.partition("/")[2] == parameter]
        return {kind: self[f"{kind}/{parameter}"] for kind in sorted(kinds) if kind != WEIGHT}


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
                        own[name.partition("/")[2]].copy_(whole())
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
        if self._engine.group.device.type == "cuda":
            torch.cuda.current_stream().synchronize()  # another stream reads it
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

