"""The inventory of the inputs: each file with size, hash and the places where it may be cut; and shards of it.

Cuts depend on the files alone. A shard is a run of cuts, so that documents, their ids and their order are the same for
any number of shards."""

import json
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from itertools import accumulate, islice, pairwise
from pathlib import Path
from typing import IO, Any

import xxhash

from argosy.core.errors import InputError
from argosy.core.store.files import write_atomic
from argosy.core.store.remote import check_window, is_uri
from argosy.corpus.data.listing import list_inputs
from argosy.corpus.data.readers import CUT_BYTES, READERS, UNPACKS, Reader, is_packed
from argosy.corpus.data.sources import UTF8, Cut, InputFile, SourceConfig

DOCUMENTS = "documents.json"
OWN = -1  # as `input` of a file of the data step's own
_BLOCK = 2**20
_THREADS = 8
_END = "]}\n"  # the last line of DOCUMENTS; those before are a file each


@dataclass(frozen=True)
class Piece:
    """The cuts of a file from `first` up to, and not with, `last`."""

    file: InputFile
    first: int
    last: int

    @property
    def weight(self) -> int:
        """Bytes to work on, about."""
        return sum(cut.weight for cut in self.file.cuts[self.first:self.last])


@dataclass(frozen=True)
class Shard:
    """A part of the inventory; one without pieces has no documents."""

    number: int
    pieces: tuple[Piece, ...]


def inventory(inputs: Sequence[str], config: SourceConfig, most: int = CUT_BYTES) -> tuple[list[InputFile], list[str]]:
    """Return (files with sizes, hashes and cuts, labels of what gives nothing, with the reason), in a fixed order.

    Files of this machine are read once, for their hashes; of a URI its store tells. `most`: bytes after which a file
    may be cut. Raises InputError: an input is absent, empty or of an unknown format, a folder has no readable file, or
    a file cannot be read."""
    files, skipped = list_inputs(inputs, config, config.skip)
    most = most if config.encoding == UTF8 else max((file.size for file in files), default=0)  # read from the beginning
    with ThreadPoolExecutor(_THREADS) as pool:
        known = list(pool.map(lambda file: identify(file, most), (file for file in files if file.size)))
    return known, [*(f"{each.label} ({each.why})" for each in skipped),
                   *(f"{file.label} (empty)" for file in files if not file.size)]


def identify(file: InputFile, most: int = CUT_BYTES) -> InputFile:
    """Return a listed file with its hash and cuts. Raises InputError: it cannot be read."""
    reader = READERS[file.format]
    try:
        cuts = _remote_cuts(file, reader, most) if is_uri(file.path) else _local_cuts(file, reader, most)
    except OSError as error:
        raise InputError(f"data.inputs: {file.path} cannot be read ({error.strerror or error})") from None
    hashes = [cut.hash for cut in cuts]
    whole = hashes[0] if len(hashes) == 1 else xxhash.xxh3_128_hexdigest("".join(hashes).encode())
    return replace(file, cuts=tuple(cuts), hash=whole)


def _remote_cuts(file: InputFile, reader: Reader, most: int) -> list[Cut]:
    """Cut where row groups begin, or at so many bytes; nothing is read but the ends of large tables."""
    groups = reader.groups(file.path, file.size, most) if file.size > most else []
    if not groups and reader.cut_after == "line" and not is_packed(file.path) and file.size > most:
        groups = [Cut(start, 0, min(most, file.size - start), "") for start in range(0, file.size, most)]
    return [cut._replace(hash=file.hash) for cut in groups] or [Cut(0, 1, _weight(file), file.hash)]


def _local_cuts(file: InputFile, reader: Reader, most: int) -> list[Cut]:
    groups = reader.groups(file.path, file.size, most) if file.size > most else []
    with open(file.path, "rb") as stream:
        if file.path.lower().endswith(".zst"):
            check_window(stream, file.path)
        if groups:
            ends = [*(cut.start for cut in groups[1:]), file.size]
            return [cut._replace(hash=hash_span(stream, cut.start, end)) for cut, end in zip(groups, ends, strict=True)]
        if reader.cut_after and not is_packed(file.path) and file.size > most:
            return list(_line_cuts(stream, most, reader.cut_after == "blank"))
        return [Cut(0, 1, _weight(file), hash_span(stream, 0, file.size))]


def _weight(file: InputFile) -> int:
    return file.size * UNPACKS if is_packed(file.path) or file.format == "parquet" else file.size


def hash_span(stream: IO[bytes], start: int, end: int) -> str:
    """Return xxh3-128 of the bytes from `start` to `end`."""
    digest = xxhash.xxh3_128()
    stream.seek(start)
    left = end - start
    while left > 0 and (raw := stream.read(min(left, _BLOCK))):
        digest.update(raw)
        left -= len(raw)
    return digest.hexdigest()


def _line_cuts(stream: IO[bytes], most: int, blank: bool) -> Iterator[Cut]:
    """Cut behind the first line, or blank line, that ends `most` bytes after a cut; hash and count in one pass."""
    start, line = 0, 1
    while True:
        digest, first, left = xxhash.xxh3_128(), line, most
        while left and (raw := stream.read(min(left, _BLOCK))):
            digest.update(raw)
            line += raw.count(b"\n")
            left -= len(raw)
        begins = False  # of a line that is read from its beginning
        while raw := stream.readline(_BLOCK):
            digest.update(raw)
            line += raw.endswith(b"\n")
            if raw.endswith(b"\n") and (not blank or (begins and raw.isspace())):
                break
            begins = raw.endswith(b"\n")
        end = stream.tell()
        if end > start:
            yield Cut(start, first, end - start, digest.hexdigest())
        if not raw:
            return
        start = end


def shards(files: Sequence[InputFile], count: int) -> list[Shard]:
    """Share the cuts of an inventory out among `count` shards, in order, so that the largest is as small as can be; a
    shard is empty only where there are more shards than cuts."""
    bounds = _bounds([cut.weight for file in files for cut in file.cuts], count)
    return [Shard(number, tuple(_pieces(files, 0, *span))) for number, span in enumerate(pairwise(bounds))]


def _bounds(weights: Sequence[int], count: int) -> list[int]:
    """Return where each of `count` runs of weights begins, and the end, so that the heaviest is as light as can be."""
    ends = [0, *accumulate(weights)]
    low, high = max([*weights, -(-ends[-1] // count)], default=0), ends[-1]
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if _needed(ends, middle) <= count else (middle + 1, high)
    bounds = [0]
    for left in range(count - 1, -1, -1):  # runs that come after, of which each has one where there are enough
        begin = bounds[-1]
        most = max(len(weights) - left, begin + (begin < len(weights)))
        bounds.append(min(_end(ends, begin, low), most))
    return bounds


def _needed(ends: Sequence[int], most: int) -> int:
    runs = at = 0
    while at < len(ends) - 1:
        at, runs = _end(ends, at, most), runs + 1
    return runs


def _end(ends: Sequence[int], begin: int, most: int) -> int:
    """Return where a run ends that weighs at most `most`, or has one weight."""
    return min(max(bisect_right(ends, ends[begin] + most) - 1, begin + 1), len(ends) - 1)


def _pieces(files: Iterable[InputFile], at: int, begin: int, end: int) -> Iterator[Piece]:
    """Yield pieces of the cuts from `begin` to `end` of all files, of which the first has the number `at`."""
    for file in files:
        first, last = max(begin - at, 0), min(end - at, len(file.cuts))
        if first < last:
            yield Piece(file, first, last)
        at += len(file.cuts)


def write_inventory(directory: Path, files: Sequence[InputFile], skipped: Sequence[str]) -> None:
    """Write `documents.json`: no path of this machine is in it."""
    records = [{"label": f.label, "input": f.input, "inner": f.inner, "folder": f.folder, "format": f.format,
                "split": f.split, "size": f.size, "hash": f.hash, "cuts": f.cuts} for f in files]
    lines = ",\n".join(json.dumps(record, ensure_ascii=False) for record in records)
    head = json.dumps({"skipped": list(skipped)}, ensure_ascii=False)[1:-1]
    write_atomic(directory / DOCUMENTS, f'{{{head}, "files": [\n{lines}\n{_END}')


def one_shard(directory: Path, inputs: Sequence[str], number: int, count: int) -> Shard:
    """Read one of `count` shards of a data step's inventory, as `shards` makes it: other files are not held.

    `inputs`: as the data step was given them. Raises InputError: it is absent, or names an input that is not given."""
    sizes, weights = array("q"), array("q")
    for record in _records(directory):
        sizes.append(len(record["cuts"]))
        weights.extend(Cut(*cut).weight for cut in record["cuts"])
    begin, end = _bounds(weights, count)[number : number + 2]
    firsts = [0, *accumulate(sizes)]
    low, high = bisect_right(firsts, begin) - 1, bisect_left(firsts, end)
    files = (_from_record(record, directory, inputs) for record in islice(_records(directory), low, high))
    return Shard(number, tuple(_pieces(files, firsts[low], begin, end)) if begin < end else ())


def _records(directory: Path) -> Iterator[dict[str, Any]]:
    """Yield the records of an inventory, a line each. Raises InputError: it is absent, or not as it was written."""
    path, last = directory / DOCUMENTS, ""
    try:
        with path.open(encoding="utf-8") as stream:
            for last in islice(stream, 1, None):
                if last != _END and last != "\n":
                    yield json.loads(last.rstrip("\n").removesuffix(","))
    except FileNotFoundError:
        raise InputError(f"data: {directory} has no {DOCUMENTS}: give the directory of a finished data step") from None
    except ValueError:
        last = ""
    if last != _END:
        raise InputError(f"{path} is damaged: delete the step's directory and run it again")


def _from_record(record: dict[str, Any], directory: Path, inputs: Sequence[str]) -> InputFile:
    if (index := record["input"]) >= len(inputs):
        raise InputError(f"{directory / DOCUMENTS} lists files of input {index}, and {len(inputs)} inputs are given: "
                         "give those of the data step, in their order")
    root = str(directory) if index == OWN else inputs[index]
    path = f"{root.rstrip('/')}/{record['inner']}" if record["inner"] else root
    values = {key: value for key, value in record.items() if key != "cuts"}
    return InputFile(path=path, cuts=tuple(Cut(*cut) for cut in record["cuts"]), **values)
