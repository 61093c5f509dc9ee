"""Keys of documents in files, and an index of a cleaned corpus against which a later corpus is deduplicated."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple
from weakref import WeakValueDictionary

from argosy.core.errors import InputError
from argosy.core.lazy import Array, Flags, Integers, np, pa, pq
from argosy.core.store.files import read_json, write_json
from argosy.corpus.cleaning.batch import chunks
from argosy.corpus.cleaning.dedup.duplicates import About
from argosy.corpus.cleaning.filter import Keys
from argosy.corpus.data.shards import GROUP_BYTES

_SUFFIX = ".npy"
_MAPPED: WeakValueDictionary[int, Array] = WeakValueDictionary()  # all arrays that are held mapped
_NUMBERS = count()


class KeyFiles(Mapping[str, Array]):
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

    def __getitem__(self, name: str) -> Array:
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
    """Return how many files may stay mapped: 3/4 of the maps and half of the open files that a process may have."""
    import resource

    files = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    try:
        maps = int(Path("/proc/sys/vm/max_map_count").read_text(encoding="ascii"))
    except OSError:
        maps = 65_000
    return min(maps * 3 // 4, files // 2 if files != resource.RLIM_INFINITY else maps)


INDEX = "index"  # in the directory of the step that has cleaned
_META, _DOCUMENTS = "index.json", "documents"
_BYTES, _ROW = GROUP_BYTES, 2**13  # that are written at a time, and what an id counts among them


class KeyFormat(NamedTuple):
    """Keys of a deduplicator: its label, the config that keys depend on, and `Deduplicator.ragged`."""

    name: str
    parameters: Mapping[str, Any]
    ragged: Mapping[str, str]
    texts: bool = False
    """Whether texts are compared too, and so are in the index."""


class EarlierDocument(NamedTuple):
    """A document of an earlier corpus: its negative number in `Duplicates.of`, the number of the corpus, its id."""

    of: int
    corpus: int
    id: str


@dataclass(frozen=True)
class IndexPart:
    """Documents of one shard of an earlier corpus."""

    directory: Path
    number: int
    documents: int

    @property
    def keys(self) -> Keys:
        """Map the keys into memory, by name."""
        return KeyFiles(self.directory, f"{self.number:05}.")

    def ids(self, rows: Integers) -> list[str]:
        """Read the ids of documents by their numbers in this part."""
        return self._column("id", rows)

    def texts(self, rows: Integers) -> list[str]:
        """Read the texts of documents by their numbers in this part."""
        return self._column("text", rows)

    def _column(self, name: str, rows: Integers) -> list[str]:
        """Read values of a column, rows ascending; row groups without any of them are not read."""
        values: list[str] = []
        with pq.ParquetFile(self.directory / f"{self.number:05}.{_DOCUMENTS}.parquet") as file:
            sizes = [file.metadata.row_group(group).num_rows for group in range(file.num_row_groups)]
            bounds = np.cumsum([0, *sizes])
            places = np.searchsorted(rows, bounds)
            for group in np.flatnonzero(np.diff(places)).tolist():
                own = rows[places[group] : places[group + 1]] - bounds[group]
                values += file.read_row_group(group, columns=[name]).column(name).take(own).to_pylist()
        return values


def write_index(keyed: KeyFormat, out: Path, shards: Sequence[Keys], kept: Flags, about: About,
                ids: Iterable[Sequence[str]]) -> None:
    """Write the keys and ids of the documents that are kept to `out`/index/<filter>, a shard at a time."""
    folder = out / INDEX / keyed.name
    folder.mkdir(parents=True, exist_ok=True)
    counts, first = [], 0
    for number, (keys, names, size) in enumerate(zip(shards, ids, about.sizes, strict=True)):
        rows = kept[first : first + size]
        for name, values in taken(keyed.ragged, keys, rows).items():
            np.save(folder / f"{number:05}.{name}.npy", values)
        read = about.texts if keyed.texts else None
        chosen = np.flatnonzero(rows)
        lengths = about.lengths[chosen + first] + _ROW if read else np.full(len(chosen), _ROW)
        groups = chunks(chosen, lengths, _BYTES)
        _write_documents(folder / f"{number:05}.{_DOCUMENTS}.parquet", names, groups, first, read)
        counts.append(int(rows.sum()))
        first += size
    write_json(folder / _META, {"name": keyed.name, "parameters": dict(keyed.parameters), "documents": counts})


def _write_documents(path: Path, ids: Sequence[str], groups: Iterable[Integers], first: int,
                     read: Callable[[Integers], Sequence[str]] | None) -> None:
    """Write the ids of a shard's documents, and their texts where `read` reads them, a group of them at a time."""
    schema = pa.schema([("id", pa.string())] + [("text", pa.string())] * (read is not None))
    with pq.ParquetWriter(path, schema, compression="zstd") as writer:
        for some in groups:
            texts = [pa.array(read(some + first), pa.string())] if read else []
            writer.write_table(pa.table([pa.array([ids[row] for row in some.tolist()], pa.string()), *texts], schema))


def taken(ragged: Mapping[str, str], keys: Keys, rows: Flags) -> dict[str, Array]:
    """Return the keys of some documents, (documents,) of which are true in `rows`."""
    return {name: values[np.repeat(rows, keys[ragged[name]]) if name in ragged else rows]
            for name, values in keys.items()}


def read_index(keyed: KeyFormat, earlier: Sequence[Path]) -> list[IndexPart]:
    """Find the indexes of earlier corpora. Raises InputError: a directory has none that this deduplicator can use."""
    parts = []
    for directory in earlier:
        folder = directory / INDEX / keyed.name
        if not (folder / _META).is_file():
            there = sorted(path.name for path in (directory / INDEX).glob("*")) if directory.is_dir() else []
            raise InputError(f"against: {directory} has no index of {keyed.name} (it has: "
                             f"{', '.join(there) or 'none'}): give the directory of a clean step that had this filter")
        meta: Mapping[str, Any] = read_json(folder / _META)
        if meta["parameters"] != dict(keyed.parameters):
            raise InputError(f"against: the index of {keyed.name} in {directory} is of {meta['parameters']}, now it is "
                             f"{dict(keyed.parameters)}: set the same")
        parts += [IndexPart(folder, number, size) for number, size in enumerate(meta["documents"])]
    return parts


def earlier_documents(keyed: KeyFormat, earlier: Sequence[Path], of: Integers) -> list[EarlierDocument]:
    """Name documents of earlier corpora by the negative numbers of `Duplicates.of`; others are passed over."""
    parts = [(at, part) for at, directory in enumerate(earlier) for part in read_index(keyed, [directory])]
    total = sum(part.documents for _, part in parts)
    wanted = np.unique(of[of < 0])
    found: list[EarlierDocument] = []
    first = -total
    for at, part in parts:
        own = wanted[(wanted >= first) & (wanted < first + part.documents)]
        names = part.ids(own - first) if len(own) else []
        found += [EarlierDocument(number, at, name) for number, name in zip(own.tolist(), names, strict=True)]
        first += part.documents
    return found
