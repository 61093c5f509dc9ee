"""Keys of a shard's documents in .npy files, mapped into memory when they are looked at."""

from collections.abc import Iterator, Mapping
from functools import cache, cached_property
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any
from weakref import WeakValueDictionary

from argosy.core.lazy import np, npt

if TYPE_CHECKING:
    Array = npt.NDArray[Any]

_SUFFIX = ".npy"
_MAPPED: "WeakValueDictionary[int, Array]" = WeakValueDictionary()  # all arrays that are held mapped
_NUMBERS = count()


class KeyFiles(Mapping[str, "Array"]):
    """Arrays by name, of the files `<prefix><name>.npy` of a folder.

    A process may map some 65,000 files, and often have 1,024 open, as a mapped one is: of very many shards those that
    come first stay mapped, and the others are mapped anew each time."""

    def __init__(self, folder: Path, prefix: str) -> None:
        self._folder, self._prefix = folder, prefix
        self._held: dict[str, Array] = {}

    @cached_property
    def _names(self) -> list[str]:
        paths = self._folder.glob(f"{self._prefix}*{_SUFFIX}")
        return sorted(path.name.removeprefix(self._prefix).removesuffix(_SUFFIX) for path in paths)

    def __getitem__(self, name: str) -> "Array":
        if name in self._held:
            return self._held[name]
        try:  # a folder may have the files of ten thousand shards, which are not listed for each of them
            values: Array = np.load(self._folder / f"{self._prefix}{name}{_SUFFIX}", mmap_mode="r")
        except FileNotFoundError:
            raise KeyError(name) from None
        if len(_MAPPED) < _most():
            self._held[name] = _MAPPED[next(_NUMBERS)] = values
        return values

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)


@cache
def _most() -> int:
    """Return how many files may stay mapped: three quarters of the maps and half of the open files that the system
    allows a process."""
    import resource

    files = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    try:
        maps = int(Path("/proc/sys/vm/max_map_count").read_text(encoding="ascii"))
    except OSError:
        maps = 65_000
    return min(maps * 3 // 4, files // 2 if files != resource.RLIM_INFINITY else maps)
