"""Readers of files of documents: a `Reader` in a file here is found by its `name`, and a file by its suffix.

A reader yields a `Record` for each text with its place, or a `Reject` with the reason why there is none: nothing is
left out in silence. Damage that ends the reading of a file is raised as it comes (`DAMAGE` of
argosy.corpus.data.jsonl), or as `Damaged`; who reads turns it into a reject of its own."""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import PurePath
from typing import Any, ClassVar, NamedTuple

from argosy.core.plugins import Folder
from argosy.corpus.data.jsonl import Damaged, Reject
from argosy.corpus.data.schemas import Document
from argosy.corpus.data.sources import Cut, InputFile, SourceConfig

PACKED = (".gz", ".zst")
UNPACKS = 4  # times: what text is, compared with its packed bytes
CUT_BYTES = 32 * 2**20  # after which a file may be cut
WHOLE = Cut(0, 1, 0, "")


class Record(NamedTuple):
    """The fields of a document and its place."""

    number: int
    """number of its line, row or record, from 1"""
    offset: int
    fields: Mapping[str, Any]
    lines: int = 1
    """number of lines that hold it, which the share of unreadable ones counts"""
    source: str = ""
    """its URL, where it has one"""
    raw: bytes = b""
    """its bytes as they lie in the file, for a reject; b"": the fields say them"""


def check_columns(names: Sequence[str], text_field: str, raw: bytes = b"") -> None:
    """Check that one column of a table is the text. Raises Damaged: several have its name; `raw`: what names them."""
    if names.count(text_field) > 1:
        raise Damaged("several columns of one name", f"{text_field!r} is the text", raw)


class Span(NamedTuple):
    """Part of a file that is to be read: bytes from `first` to `last`, or all of it."""

    first: Cut = WHOLE
    last: Cut | None = None
    """the cut that begins behind it; None: it goes to the file's end"""

    @property
    def end(self) -> int:
        """The byte behind it; 0: the file's end."""
        return self.last.start if self.last else 0


class Reader(ABC):
    """The reader of one format."""

    name: ClassVar[str] = ""
    suffixes: ClassVar[tuple[str, ...]] = ()
    packed: ClassVar[bool] = True
    """Whether its files may also be .gz and .zst."""
    unit: ClassVar[str] = "line"
    """Unit that its records' numbers count."""
    names_channels: ClassVar[bool] = False
    """Whether its records may have a field that names their channel."""
    cut_after: ClassVar[str | None] = None
    """Places where a file of lines that is not packed may be cut: "line", "blank" line; None: nowhere."""

    @abstractmethod
    def read(self, file: InputFile, span: Span, config: SourceConfig) -> Iterator[Record | Document | Reject]:
        """Yield the records of a span of a file, in order."""

    def groups(self, path: str, size: int, most: int) -> list[Cut]:
        """List the cuts of a file that knows its own spans, each of `most` bytes and more; []: it has none."""
        return []


READERS: Folder[Reader] = Folder("reader", Reader, __name__, instances=True)


@cache
def by_suffix() -> Mapping[str, str]:
    """Name the reader of each suffix. Raises RuntimeError: two readers have the same one."""
    named: dict[str, str] = {}
    for name, reader in READERS.items():
        for suffix in reader.suffixes:
            for full in (suffix, *(suffix + packing for packing in PACKED if reader.packed)):
                if named.setdefault(full, name) != name:
                    raise RuntimeError(f"the readers {named[full]} and {name} both have the suffix {full}")
    return named


def suffix_of(path: PurePath | str) -> str:
    """Return the longest suffix of a reader that a file's name ends in, or "", as of a name that is all suffix."""
    parts = PurePath(path).name.lower().split(".")
    for first in range(1, len(parts)):
        if (suffix := "." + ".".join(parts[first:])) in by_suffix() and any(parts[:first]):
            return suffix
    return ""


def format_of(path: PurePath | str) -> str:
    """Return the name of the reader that a file's suffix has, or ""."""
    return by_suffix().get(suffix_of(path), "")


def is_packed(path: str) -> bool:
    """Tell whether a file is compressed as a whole."""
    return path.lower().endswith(PACKED)


ALLOWED = ("text (.txt .md .rst), JSON and JSONL, parquet, CSV and TSV, HTML, WARC and WET, Arrow and Hugging "
           "Face datasets, source code; docs/documents.md lists the suffixes")
