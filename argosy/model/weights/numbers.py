"""Tensors by name that are read a piece at a time, and files of them that are written without a copy."""

import json
import struct
from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

_DTYPES = {torch.float64: "F64", torch.float32: "F32", torch.float16: "F16", torch.bfloat16: "BF16", torch.int64: "I64",
           torch.int32: "I32", torch.int16: "I16", torch.int8: "I8", torch.uint8: "U8", torch.bool: "BOOL",
           torch.float8_e4m3fn: "F8_E4M3", torch.float8_e5m2: "F8_E5M2"}


class Numbers(Mapping[str, Tensor]):
    """Whole tensors by name, each made or read when it is asked for."""

    @abstractmethod
    def __getitem__(self, name: str) -> Tensor: ...

    @abstractmethod
    def __iter__(self) -> Iterator[str]: ...

    def read(self, name: str, start: Sequence[int], shape: Sequence[int]) -> Tensor:
        """Return the piece of tensor `name` that begins at `start` and has `shape`."""
        return self[name][slices(start, shape)]

    def check(self, name: str, part: Tensor) -> None:
        """Check a piece of tensor `name` that a process took. Raises InputError: it is not finite."""


def slices(start: Sequence[int], shape: Sequence[int]) -> tuple[slice, ...]:
    """Return the index of the piece that begins at `start` and has `shape`."""
    return tuple(slice(at, at + size) for at, size in zip(start, shape, strict=True))


def write_tensors(path: Path, tensors: Mapping[str, Tensor], metadata: Mapping[str, str]) -> None:
    """Write a safetensors file, one tensor after another from where it lies: the library's own writer copies them all
    to the memory first."""
    header: dict[str, Any] = {"__metadata__": dict(metadata)}
    order = sorted(tensors.items(), key=lambda pair: (-pair[1].element_size(), pair[0]))  # so that each is aligned
    end = 0
    for name, tensor in order:
        begin, end = end, end + tensor.nbytes
        header[name] = {"dtype": _DTYPES[tensor.dtype], "shape": list(tensor.shape), "data_offsets": [begin, end]}
    text = json.dumps(header, separators=(",", ":"), ensure_ascii=False).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        for _, tensor in order:
            file.write(tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().data)
