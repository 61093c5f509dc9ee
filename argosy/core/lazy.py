"""Libraries of arrays and tables, imported when one of their names is first used: importing a step stays light.

Types of arrays are known to a checker alone."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt
    import pyarrow as pa
    import pyarrow.parquet as pq
    import tokenizers
    import torch
    from torch import Tensor as Tensor

    Array = npt.NDArray[Any]
    Bytes = npt.NDArray[np.uint8]
    Points = npt.NDArray[np.uint32]
    Hashes = npt.NDArray[np.uint64]
    Integers = npt.NDArray[np.int64]
    Integers32 = npt.NDArray[np.int32]
    Flags = npt.NDArray[np.bool_]
    Floats = npt.NDArray[np.float64]
    Floats32 = npt.NDArray[np.float32]


class _Lazy:
    def __init__(self, module: str) -> None:
        self._module = module

    def __getattr__(self, name: str) -> Any:
        value = getattr(import_module(self._module), name)
        setattr(self, name, value)
        return value


if not TYPE_CHECKING:
    np, npt = _Lazy("numpy"), _Lazy("numpy.typing")
    pa, pq = _Lazy("pyarrow"), _Lazy("pyarrow.parquet")
    tokenizers, torch = _Lazy("tokenizers"), _Lazy("torch")
    Tensor = Array = Bytes = Points = Hashes = Integers = Integers32 = Flags = Floats = Floats32 = Any

__all__ = ["np", "npt", "pa", "pq", "tokenizers", "torch"]
