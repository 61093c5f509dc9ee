"""Libraries of arrays and tables, imported when one of their names is first used: importing a step stays light."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt
    import pyarrow as pa
    import pyarrow.parquet as pq


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

__all__ = ["np", "npt", "pa", "pq"]
