"""The user's own files -> documents and rejects, in a fixed order."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from argosy.config import Config
from argosy.documents.files import JSONL, PARQUET, format_of, input_files, open_binary
from argosy.documents.parse import ParseError, check_text, parse_object, read_lines
from argosy.documents.record import Document
from argosy.documents.rejects import Reject
from argosy.errors import InputError

RESERVED_CHANNEL = "instructions"  # the tokenized conversations have this name


class SourceConfig(Config):
    """How the user's files become documents.

    A document's channel is its `channel_field`, else `channel`, else the name of its folder below the
    input directory, else "text"; its language is its `lang_field`, else `lang`, else left to cleaning.
    """

    text_field: str = "text"
    channel_field: str = "channel"
    lang_field: str = "lang"
    channel: str = ""
    lang: str = ""
    text_chars: int = 20_000  # a .txt or .md is cut at a blank line after this many characters


@dataclass(frozen=True)
class InputFile:
    """One file: where it is, what ids call it (no path of this machine), the folder that may name its channel."""

    path: Path
    label: str
    folder: str


def list_inputs(inputs: Sequence[str]) -> tuple[list[InputFile], list[str]]:
    """(files to read, labels of files that are not of a known format), in a fixed order.

    Raises:
        InputError: an input is absent, empty or of an unknown format.
    """
    names = [Path(given).name for given in inputs]
    files: list[InputFile] = []
    unknown: list[str] = []
    for index, given in enumerate(inputs):
        root = Path(given)
        label = names[index] if names.count(names[index]) == 1 else f"{index}-{names[index]}"
        known, others = input_files(root)
        for path in known:
            inner = path.relative_to(root)
            folder = inner.parts[0] if len(inner.parts) > 1 else ""
            files.append(InputFile(path, label if path == root else f"{label}/{inner.as_posix()}", folder))
        unknown += [f"{label}/{path.relative_to(root).as_posix()}" for path in others]
    return files, unknown


def read_source(file: InputFile, config: SourceConfig) -> Iterator[tuple[Document | Reject, int]]:
    """Each document or reject of a file, with the number of records (lines, rows) that it stands for."""
    suffix = format_of(file.path)
    if suffix in JSONL:
        yield from _read_jsonl(file, config)
    elif suffix in PARQUET:
        yield from _read_parquet(file, config)
    else:
        yield from _read_text(file, config)


def _read_jsonl(file: InputFile, config: SourceConfig) -> Iterator[tuple[Document | Reject, int]]:
    with open_binary(file.path) as stream:
        for number, raw, problem in read_lines(stream):
            try:
                if problem:
                    raise ParseError(problem)
                yield _document(parse_object(raw), file, number, config), 1
            except ParseError as error:
                yield Reject(file.label, number, str(error), raw), 1


def _read_parquet(file: InputFile, config: SourceConfig) -> Iterator[tuple[Document | Reject, int]]:
    import pyarrow as pa  # type: ignore[import-untyped]
    import pyarrow.parquet as pq  # type: ignore[import-untyped]

    number = 0
    try:
        with pq.ParquetFile(file.path) as table:
            for batch in table.iter_batches(batch_size=1000):
                for row in batch.to_pylist():
                    number += 1
                    try:
                        yield _document(row, file, number, config), 1
                    except ParseError as error:
                        yield Reject(file.label, number, str(error), repr(row).encode(errors="surrogateescape")), 1
    except (pa.ArrowException, OSError) as error:
        yield Reject(file.label, 0, "unreadable Parquet file", str(error).encode()), 1


def _read_text(file: InputFile, config: SourceConfig) -> Iterator[tuple[Document | Reject, int]]:
    """Cut at blank lines, so that a book is many documents and not one; lines that are not UTF-8 are set aside."""
    lines: list[str] = []
    first, chars = 1, 0
    with open_binary(file.path) as stream:
        for number, raw, problem in read_lines(stream, keep_blank=True):
            if problem:
                yield Reject(file.label, number, problem, raw), 1
                continue
            lines.append(raw.decode())
            chars += len(lines[-1])
            full = chars >= config.text_chars and not raw.strip()
            if full or chars >= 2 * config.text_chars:
                yield from _piece(lines, first, file, config)
                lines, first, chars = [], number + 1, 0
    yield from _piece(lines, first, file, config)


def _piece(lines: list[str], first: int, file: InputFile, config: SourceConfig) -> Iterator[tuple[Document, int]]:
    text = "".join(lines).strip()
    if text:
        yield _document({config.text_field: text}, file, first, config), len(lines)


def _document(record: dict[str, Any], file: InputFile, number: int, config: SourceConfig) -> Document:
    text = check_text(record, config.text_field)
    place = f"{file.label}:{number}"
    used = (config.text_field, config.channel_field, config.lang_field)
    lang = record.get(config.lang_field)
    return Document(
        id=place,
        text=text,
        channel=channel_name(record.get(config.channel_field) or config.channel or file.folder or "text"),
        lang=lang if isinstance(lang, str) and lang else config.lang,
        source=place,
        metadata={key: value for key, value in record.items() if key not in used},
    )


def channel_name(given: object) -> str:
    """A channel's name as a part of file and metric names: letters, digits, `_`, `-`, `.`; at most 64 characters.

    Raises:
        InputError: it is the name of the tokenized conversations.
    """
    name = re.sub(r"[^\w.-]+", "_", str(given)).strip("._")[:64] or "text"
    if name == RESERVED_CHANNEL:
        raise InputError(f"channel {name!r} is reserved for conversations: give these documents another channel")
    return name
