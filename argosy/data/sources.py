"""The user's own files: found, read into documents and rejects in a fixed order, written to their channels."""

import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field

from argosy.config.schema import ADDED, Config
from argosy.data.jsonl import JSONL, MOST_BYTES, JsonlWriters, Reject, parse_or_reject, read_lines, unreadable
from argosy.data.rejects import Tally
from argosy.data.schemas import Document, ParseError, check_text
from argosy.errors import InputError

TEXT = (".txt", ".md")
PARQUET = (".parquet",)
FORMATS = TEXT + JSONL + PARQUET
QUICK_BYTES = 20_000_000  # of records: read in about a second


def format_of(path: Path) -> str:
    """Return the suffix from FORMATS that the file's name ends in, or ""."""
    return next((suffix for suffix in FORMATS if path.name.lower().endswith(suffix)), "")


def input_files(path: Path, field: str = "input") -> tuple[list[Path], list[Path]]:
    """Return (readable files, what is passed over) at `path`, sorted: files of unknown formats, readable ones below a
    name with `_`, links to folders or to nothing; what begins with a dot is in neither.

    Raises InputError: it does not exist, is empty, or is of an unknown format."""
    allowed = f"allowed: {', '.join(FORMATS)}, or a directory of them"
    if not path.exists():
        raise InputError(f"{field} {path} does not exist; {allowed}")
    if path.is_file():
        if not format_of(path):
            raise InputError(f"{field} {path} is of an unknown format; {allowed}")
        if path.stat().st_size == 0:
            raise InputError(f"{field} {path} is empty (0 bytes)")
        return [path], []
    readable, others = [], []
    for found in sorted(path.rglob("*")):
        parts = found.relative_to(path).parts
        marked = any(part.startswith("_") for part in parts)
        if any(part.startswith(".") for part in parts) or (marked and not (format_of(found) or found.is_symlink())):
            continue
        if found.is_file() and format_of(found) and not marked:
            readable.append(found)
        elif found.is_file() or found.is_symlink():
            others.append(found)
    if not readable:
        raise InputError(f"{field} {path} is a directory without a file to read; {allowed}")
    return readable, others


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
    text_chars: Annotated[int, Field(gt=0)] = 20_000
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
    """Return (files to read, labels of what is passed over), in a fixed order.

    `skip`: folders that may hold no readable file; None: any may, as those of held-out texts, which have no channels.
    Raises InputError: an input is absent, empty or of an unknown format, or a folder of it holds no readable file."""
    names = [Path(given).name for given in inputs]
    files: list[InputFile] = []
    unknown: list[InputFile] = []
    for index, given in enumerate(inputs):
        root = Path(given)
        label = names[index] if names.count(names[index]) == 1 else f"{index}-{names[index]}"
        found_at = input_files(root, "input" if skip is None else "data.inputs")
        for paths, found in zip(found_at, (files, unknown), strict=True):
            for path in paths:
                inner = path.relative_to(root)
                folder = inner.parts[0] if len(inner.parts) > 1 or path.is_dir() else ""
                found.append(InputFile(path, label if path == root else f"{label}/{inner.as_posix()}", folder))
        lost = {file.folder for file in unknown} - {file.folder for file in files} - {"", *(skip or ())}
        if lost and skip is not None:
            folder = min(lost)
            suffixes = Counter("link" if file.path.is_symlink() else file.path.suffix or file.path.name
                               for file in unknown if file.folder == folder)
            held = ", ".join(f"{count} {suffix}" for suffix, count in suffixes.most_common(3))
            raise InputError(f"data.inputs {given}: no file of the folder {folder} can be read ({held}; allowed: "
                             f"{', '.join(FORMATS)}, in folders that are no links and begin with no _), so that its "
                             "channel would be lost: convert them (each to a line of JSON with its text), rename the "
                             f"folder or name it as an input, or set data.source.skip=[{folder}]")
    return files, [file.label for file in unknown]


_Parse = Callable[[int, dict[str, Any]], Document]  # line number, record


def read_source(
    file: InputFile, config: SourceConfig, channels: dict[str, str]
) -> Iterator[tuple[Document | Reject, int]]:
    """Yield each document or reject of a file, with the number of lines (rows of a table) that hold it.

    `channels`: what each channel was called by the user's files, filled here. Raises InputError: two of them have one
    name, or the file is damaged; StepError: its disk fails."""
    suffix = format_of(file.path)
    parse = partial(_document, file, config, channels)
    if suffix in JSONL:
        records = parse_or_reject(file.path, parse, file.label, most=config.record_bytes)
        yield from ((item, 1) for item in records)
    elif suffix in PARQUET:
        yield from _read_parquet(file, parse)
    else:
        yield from _read_text(file, config, parse)


def _read_parquet(file: InputFile, parse: _Parse) -> Iterator[tuple[Document | Reject, int]]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    number = 0
    try:
        with pq.ParquetFile(file.path) as table:
            for batch in table.iter_batches(batch_size=1000):
                for row in batch.to_pylist():
                    number += 1
                    try:
                        yield parse(number, row), 1
                    except ParseError as error:
                        yield Reject(file.label, number, str(error), repr(row).encode(errors="surrogateescape")), 1
    except (pa.ArrowException, OSError) as error:
        raise unreadable(file.path, error, number) from error


def _read_text(file: InputFile, config: SourceConfig, parse: _Parse) -> Iterator[tuple[Document | Reject, int]]:
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
            yield from _piece(lines, first, config, parse)
            lines, first, chars = [], number + 1, 0
    yield from _piece(lines, first, config, parse)


def _piece(lines: list[str], first: int, config: SourceConfig, parse: _Parse) -> Iterator[tuple[Document, int]]:
    text = "".join(lines).strip()
    if text:
        yield parse(first, {config.text_field: text}), sum(bool(line.strip()) for line in lines)


def _document(
    file: InputFile, config: SourceConfig, channels: dict[str, str], number: int, record: dict[str, Any]
) -> Document:
    text = check_text(record, config.text_field)
    if len(text) * 4 > config.record_bytes and len(text.encode()) > config.record_bytes:  # of a Parquet file
        raise ParseError(f"longer than {config.record_bytes} bytes")
    place = f"{file.label}:{number}"
    used = (config.text_field, config.channel_field, config.lang_field)
    lang = record.get(config.lang_field)
    given = str(record.get(config.channel_field) or _default_channel(file, config))
    if (first := channels.setdefault(channel := channel_name(given), given)) != given:
        raise InputError(f"the channels {first!r} and {given!r} would both be named {channel!r}, and their documents "
                         f"mixed: rename one of them (seen at {place}), as in C and Cpp, or set data.source.channel")
    return Document(
        id=place, text=text, channel=channel, source=place,
        lang=lang if isinstance(lang, str) and lang else config.lang,
        metadata={key: value for key, value in record.items() if key not in used}
    )


def _default_channel(file: InputFile, config: SourceConfig) -> str:
    return config.channel or file.folder or "text"


def input_channels(inputs: Sequence[str], config: SourceConfig) -> set[str] | None:
    """Return the channels of the documents in `inputs`; None where records name them that are too many to read now.

    Raises InputError: as `read_source` and `list_inputs`."""
    files, _ = list_inputs(inputs, config.skip)
    records = [file for file in files if format_of(file.path) not in TEXT]
    if sum(file.path.stat().st_size for file in records) > QUICK_BYTES:
        return None
    texts = {channel_name(_default_channel(file, config)) for file in files if file not in records}
    return texts | {item.channel for file in records for item, _ in read_source(file, config, {})
                    if isinstance(item, Document)}


def check_channels(weights: Iterable[str], channels: Collection[str], where: str = "mixture") -> None:
    """Check that a mixture names channels that there are. Raises InputError: it does not."""
    for name in weights:
        if name not in channels:
            names = ", ".join(sorted(channels))
            raise InputError(f"{where}.{name}: no such channel with documents; there are: {names}")


def channel_name(given: str) -> str:
    """Make a part of file and metric names of a channel's: letters, digits, `_`, `-`, `.`; at most 64 characters.

    Raises InputError: it is the name of the tokenized conversations."""
    name = re.sub(r"[^\w.-]+", "_", given).strip("._")[:64] or "text"
    if name == RESERVED_CHANNEL:
        raise InputError(f"channel {name!r} is reserved for conversations: give these documents another channel")
    return name


MAX_CHANNELS = 100
REJECTS = "rejects/documents"


def write_inputs(
    inputs: Sequence[str], config: SourceConfig, writers: JsonlWriters, rejects_at: str
) -> tuple[Tally, list[str]]:
    """Write `documents/<channel>` and `rejects/documents`; returns counts of lines, and what gave nothing: files of
    unknown formats, empty or below a name with `_`, linked folders.

    Raises InputError: an input is absent, empty, damaged or mostly unreadable, there are too many channels, or two of
    one name."""
    files, skipped = list_inputs(inputs, config.skip)
    tally = Tally()
    wrong: list[tuple[str, Tally]] = []
    channels: dict[str, str] = {}
    writers.open(REJECTS)
    for file in files:
        own = _write_file(file, config, writers, channels)
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


def _write_file(file: InputFile, config: SourceConfig, writers: JsonlWriters, channels: dict[str, str]) -> Tally:
    tally = Tally()
    for item, count in read_source(file, config, channels):
        if isinstance(item, Reject):
            tally.rejected[item.reason] += count
            writers.write(REJECTS, item.to_record())
        else:
            tally.read += count
            writers.write(f"documents/{item.channel}", item.to_record())
    return tally
