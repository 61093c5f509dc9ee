"""The user's own files: found, read into documents and rejects in a fixed order, written to their channels."""

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field

from argosy.config.schema import ADDED, Config
from argosy.data.jsonl import JSONL, MOST_BYTES, JsonlWriters, Reject, parse_or_reject, read_lines
from argosy.data.rejects import Tally
from argosy.data.schemas import Document, ParseError, check_text
from argosy.errors import InputError

TEXT = (".txt", ".md")
PARQUET = (".parquet",)
FORMATS = TEXT + JSONL + PARQUET


def format_of(path: Path) -> str:
    """Return the suffix from FORMATS that the file's name ends in, or ""."""
    return next((suffix for suffix in FORMATS if path.name.lower().endswith(suffix)), "")


def input_files(path: Path) -> tuple[list[Path], list[Path]]:
    """Return (readable files, files of unknown formats) at `path`, sorted; hidden ones are left out.

    Raises InputError: it does not exist, is empty, or is of an unknown format."""
    allowed = f"allowed: {', '.join(FORMATS)}, or a directory of them"
    if not path.exists():
        raise InputError(f"input {path} does not exist; {allowed}")
    if path.is_file():
        if not format_of(path):
            raise InputError(f"input {path} is of an unknown format; {allowed}")
        if path.stat().st_size == 0:
            raise InputError(f"input {path} is empty (0 bytes)")
        return [path], []
    hidden = (".", "_")
    files = sorted(
        p for p in path.rglob("*") if p.is_file() and not any(s.startswith(hidden) for s in p.relative_to(path).parts)
    )
    readable = [p for p in files if format_of(p)]
    if not readable:
        raise InputError(f"input {path} is a directory without a file to read; {allowed}")
    return readable, [p for p in files if not format_of(p)]


RESERVED_CHANNEL = "instructions"  # the tokenized conversations have this name


class SourceConfig(Config):
    """Reading of the user's files."""

    text_field: str = "text"
    """Field of a record that is the document's text."""
    channel_field: str = "channel"
    """Field that is its channel; else `channel`, else the name of its folder below the input directory, else "text"."""
    lang_field: str = "lang"
    """Field that is its language; else `lang`, else cleaning tells."""
    channel: str = ""
    """Channel of documents whose record names none."""
    lang: str = ""
    """Language of documents whose record names none."""
    text_chars: int = 20_000
    """Characters after which a .txt or .md is cut at a blank line."""
    record_bytes: Annotated[int, ADDED, Field(ge=1)] = MOST_BYTES
    """Bytes of the longest line or row; a longer one is set aside. Cleaning needs some 20 times as much memory."""
    skip: Annotated[tuple[str, ...], ADDED] = ()
    """Folders below an input that may hold no readable file, such as [images]; others are refused, as their channel
    would be lost."""


@dataclass(frozen=True)
class InputFile:
    """One file to read."""

    path: Path
    label: str
    """Its name in ids: no path of this machine."""
    folder: str
    """Its folder below the input, which may name the channel."""


def list_inputs(inputs: Sequence[str], skip: Sequence[str] | None = None) -> tuple[list[InputFile], list[str]]:
    """Return (files to read, labels of files of unknown formats), in a fixed order.

    `skip`: folders that may hold no readable file; None: any may, as those of held-out texts, which have no channels.
    Raises InputError: an input is absent, empty or of an unknown format, or a folder of it holds no readable file."""
    names = [Path(given).name for given in inputs]
    files: list[InputFile] = []
    unknown: list[InputFile] = []
    for index, given in enumerate(inputs):
        root = Path(given)
        label = names[index] if names.count(names[index]) == 1 else f"{index}-{names[index]}"
        for paths, found in zip(input_files(root), (files, unknown), strict=True):
            for path in paths:
                inner = path.relative_to(root)
                folder = inner.parts[0] if len(inner.parts) > 1 else ""
                found.append(InputFile(path, label if path == root else f"{label}/{inner.as_posix()}", folder))
        lost = {file.folder for file in unknown} - {file.folder for file in files} - {"", *(skip or ())}
        if lost and skip is not None:
            folder = min(lost)
            suffixes = Counter(file.path.suffix or file.path.name for file in unknown if file.folder == folder)
            held = ", ".join(f"{count} {suffix}" for suffix, count in suffixes.most_common(3))
            raise InputError(f"data.inputs {given}: no file of the folder {folder} can be read ({held}; allowed: "
                             f"{', '.join(FORMATS)}), so that its channel would be lost: convert them (each to a line "
                             f"of JSON with its text), or set data.source.skip=[{folder}]")
    return files, [file.label for file in unknown]


def read_source(file: InputFile, config: SourceConfig) -> Iterator[tuple[Document | Reject, int]]:
    """Yield each document or reject of a file, with the number of lines (rows of a table) that hold it."""
    suffix = format_of(file.path)
    if suffix in JSONL:
        parse = partial(_document, file, config)
        records = parse_or_reject(file.path, parse, file.label, most=config.record_bytes)
        yield from ((item, 1) for item in records)
    elif suffix in PARQUET:
        yield from _read_parquet(file, config)
    else:
        yield from _read_text(file, config)


def _read_parquet(file: InputFile, config: SourceConfig) -> Iterator[tuple[Document | Reject, int]]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    number = 0
    try:
        with pq.ParquetFile(file.path) as table:
            for batch in table.iter_batches(batch_size=1000):
                for row in batch.to_pylist():
                    number += 1
                    try:
                        yield _document(file, config, number, row), 1
                    except ParseError as error:
                        yield Reject(file.label, number, str(error), repr(row).encode(errors="surrogateescape")), 1
    except (pa.ArrowException, OSError) as error:
        yield Reject(file.label, 0, "unreadable Parquet file", str(error).encode()), 1


def _read_text(file: InputFile, config: SourceConfig) -> Iterator[tuple[Document | Reject, int]]:
    """Cut at blank lines, so that a book is many documents and not one; lines that are not UTF-8 are set aside."""
    lines: list[str] = []
    first, chars = 1, 0
    for number, raw, problem in read_lines(file.path, keep_blank=True, most=config.record_bytes):
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
        yield _document(file, config, first, {config.text_field: text}), sum(bool(line.strip()) for line in lines)


def _document(file: InputFile, config: SourceConfig, number: int, record: dict[str, Any]) -> Document:
    text = check_text(record, config.text_field)
    if len(text) > config.record_bytes:  # of a Parquet file
        raise ParseError(f"longer than {config.record_bytes} bytes")
    place = f"{file.label}:{number}"
    used = (config.text_field, config.channel_field, config.lang_field)
    lang = record.get(config.lang_field)
    return Document(
        id=place, text=text,
        channel=channel_name(record.get(config.channel_field) or config.channel or file.folder or "text"),
        lang=lang if isinstance(lang, str) and lang else config.lang, source=place,
        metadata={key: value for key, value in record.items() if key not in used}
    )


def channel_name(given: object) -> str:
    """Make a part of file and metric names of a channel's: letters, digits, `_`, `-`, `.`; at most 64 characters.

    Raises InputError: it is the name of the tokenized conversations."""
    name = re.sub(r"[^\w.-]+", "_", str(given)).strip("._")[:64] or "text"
    if name == RESERVED_CHANNEL:
        raise InputError(f"channel {name!r} is reserved for conversations: give these documents another channel")
    return name


MAX_CHANNELS = 100
REJECTS = "rejects/documents"


def write_inputs(
    inputs: Sequence[str], config: SourceConfig, writers: JsonlWriters, rejects_at: str
) -> tuple[Tally, list[str]]:
    """Write `documents/<channel>` and `rejects/documents`; returns counts of lines, and files that gave nothing: of
    unknown formats, or empty.

    Raises InputError: an input is absent, empty or mostly unreadable, or there are too many channels."""
    files, skipped = list_inputs(inputs, config.skip)
    tally = Tally()
    wrong: list[tuple[str, Tally]] = []
    writers.open(REJECTS)
    for file in files:
        own = _write_file(file, config, writers)
        tally.read += own.read
        tally.rejected.update(own.rejected)
        if own.rejected.total() > own.read:
            wrong.append((file.label, own))
        elif not own.read:
            skipped.append(f"{file.label} (empty)")
        if len(writers.counts) > MAX_CHANNELS:
            raise InputError(
                f"data.source.channel_field: {config.channel_field!r} has more than {MAX_CHANNELS} values; a channel "
                "is a kind of text with its own loss: name another field, or set data.source.channel"
            )
    writers.finish(REJECTS)  # a refusal points to them
    tally.check(f"data.inputs {', '.join(inputs)}", rejects_at)
    for label, own in wrong:  # lines of another file are no excuse
        more = f" (and {len(wrong) - 1} more files)" if wrong[1:] else ""
        own.check(f"data.inputs: {label}{more}", rejects_at)
    return tally, skipped


def _write_file(file: InputFile, config: SourceConfig, writers: JsonlWriters) -> Tally:
    tally = Tally()
    for item, count in read_source(file, config):
        if isinstance(item, Reject):
            tally.rejected[item.reason] += count
            writers.write(REJECTS, item.to_record())
        else:
            tally.read += count
            writers.write(f"documents/{item.channel}", item.to_record())
    return tally
