"""A phase's tensors on the disk: whole, by name, the same for every engine and every number of processes.

What one engine wrote with four processes another reads with one. A tensor is put together when its turn comes and is
written by one of the processes, so that none ever holds the model."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from torch import Tensor

from argosy.core.errors import StepError
from argosy.model.train.parallelism import Group

PART_BYTES = 2**31
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

