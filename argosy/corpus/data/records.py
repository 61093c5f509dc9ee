"""The user's own records for post-training: files and folders by channel, read by format, bad ones set aside."""

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Annotated, Any

from pydantic import BeforeValidator

from argosy.core.config.schema import Role, expand_home
from argosy.core.errors import InputError
from argosy.corpus.data import jsonl
from argosy.corpus.data.counts import Tally
from argosy.corpus.data.formats import FORMATS, Record, describe, read_record
from argosy.corpus.data.readers import READERS, Span, format_of
from argosy.corpus.data.readers import Record as Line
from argosy.corpus.data.schemas import ParseError, parse_record
from argosy.corpus.data.sources import InputFile, SourceConfig
from argosy.corpus.data.turns import unread_keys

PARQUET = (".parquet",)
JSON = (".json", ".json.gz", ".json.zst")
READABLE = (*JSON, *jsonl.JSONL, *PARQUET)
KINDS = ("instructions", "preferences", "feedback", "prompts")


def _by_channel(value: object) -> object:
    """Name the channels of paths that have none, one or several with commas: as their files or folders are called."""
    paths = value
    if isinstance(value, str):
        paths = [value] if Path(expand_home(value)).exists() else [path.strip() for path in value.split(",")]
    if isinstance(paths, Mapping):
        return {str(name): expand_home(path) if isinstance(path, str) else path for name, path in paths.items()}
    if not isinstance(paths, list | tuple) or not all(isinstance(path, str) for path in paths):
        return value
    named: dict[str, str] = {}
    for path in filter(None, paths):
        if (name := _stem(Path(path))) in named:
            raise ValueError(f"{path} and {named[name]} would both be the channel {name!r}, allowed: a mapping of "
                             "channels to paths, such as {a: PATH, b: PATH}")
        named[name] = expand_home(path)
    return named


Files = Annotated[dict[str, str], Role.EXTERNAL, BeforeValidator(_by_channel)]


def _stem(path: Path) -> str:
    suffix = next((suffix for suffix in READABLE if path.name.lower().endswith(suffix)), "")
    return path.name[: len(path.name) - len(suffix)] or path.name


def record_files(kind: str, path: Path) -> list[Path]:
    """List the files of records at a path, by name. Raises InputError: it is absent, empty or of an unknown format."""
    allowed = f"allowed: {', '.join(READABLE)}, or a folder of them"
    if not path.exists():
        raise InputError(f"data.{kind}: {path} does not exist; {allowed}")
    if path.is_dir():
        found = [file for file in sorted(path.rglob("*")) if file.is_file() and file.name.lower().endswith(READABLE)
                 and not any(part.startswith((".", "_")) for part in file.relative_to(path).parts)]
    else:
        found = [path] if path.name.lower().endswith(READABLE) else []
    if not found:
        raise InputError(f"data.{kind}: {path} is not a file that can be read; {allowed}")
    for file in found:
        if not file.stat().st_size:
            raise InputError(f"data.{kind}: {file} is empty (0 bytes); take it out")
    return found


def files_by_channel(kind: str, files: Mapping[str, str]) -> Iterator[tuple[str, str, Path]]:
    """Yield the name that `files` has for a path, the channel, and a file of it: below a folder that has its own name,
    each file is a channel. Raises InputError: as record_files."""
    for given, root in files.items():
        for path in record_files(kind, Path(root)):
            yield given, _stem(path) if Path(root).is_dir() and given == Path(root).name else given, path


def check_formats(formats: Mapping[str, str], channels: set[str]) -> None:
    """Check that formats are named for channels that there are. Raises InputError: one is not, or no such format is."""
    for channel, name in formats.items():
        if name not in FORMATS:
            raise InputError(f"data.formats.{channel}: {FORMATS.unknown(name)}; they are {describe()}")
        if channel not in channels:
            names = ", ".join(sorted(channels))
            raise InputError(f"data.formats.{channel}: no file has this channel; there are: {names}")


def read_files(kind: str, files: Mapping[str, str], formats: Mapping[str, str], writers: jsonl.JsonlWriters,
               rejects_at: str) -> tuple[list[Record], Tally]:
    """Return the records of the field `data.<kind>`, each with its `channel`; bad ones go to `rejects/<kind>`.

    A record that names its channel keeps it. Raises InputError: a file is mostly unusable."""
    records: list[Record] = []
    total, wrong = Tally(), []
    for given, channel, path in files_by_channel(kind, files):
        own = Tally()
        parse = partial(_parse, kind, formats.get(channel, formats.get(given, "")), channel, own.unread)
        for item in read_any(path, parse):
            if isinstance(item, jsonl.Reject):
                own.rejected[item.reason] += 1
                own.first = own.first or f"; {item.unit} {item.line}: {item.reason}" + (
                    f", but it is {item.value}" if item.value else "")
                writers.write(f"rejects/{kind}", item.to_record())
            else:
                records.append(item)
        own.read, total.read = len(records) - total.read, len(records)
        total.unread.update(own.unread)
        total.rejected.update(own.rejected)
        if not own.read or own.rejected.total() > own.read:
            wrong.append((path, own))
    writers.finish(f"rejects/{kind}")  # a refusal points to them
    for path, own in wrong:
        _refuse(kind, path, own, rejects_at)
    return records, total


def _refuse(kind: str, path: Path, tally: Tally, rejects_at: str) -> None:
    try:
        tally.check(f"data.{kind} {path}", rejects_at)
    except InputError as error:
        if not any(reason.startswith("fits ") for reason in tally.rejected):
            raise
        raise InputError(f"{error}. The formats and their keys: {describe()}. Rename the keys, or name the format by "
                         "its channel in data.formats") from None


def _parse(kind: str, format: str, channel: str, unread: Counter[str], record: Record) -> Record:
    if kind == "benchmark":
        return dict(parse_record(kind, record))
    found = read_record(kind, record, format)
    unread.update(unread_keys(record))
    given = found.get("channel")
    return found | {"channel": given if isinstance(given, str) and given else channel}


def read_any(path: Path, parse: Any) -> Iterator[Record | jsonl.Reject]:
    """Yield what `parse` makes of each record of a JSON, JSONL or Parquet file, or the reject where it raises
    ParseError. Raises InputError: the file is damaged; StepError: its disk fails."""
    reader, number = READERS[format_of(path)], 0
    try:
        file = InputFile(str(path), path.name, "", reader.name, path.stat().st_size)
        for item in reader.read(file, Span(), SourceConfig()):
            if isinstance(item, Line):
                yield _parsed(path.name, item, reader.unit, parse)
            elif isinstance(item, jsonl.Reject):
                yield item
            number += 1
    except (jsonl.Damaged, *jsonl.DAMAGE) as error:
        raise jsonl.unreadable(path, error, number) from error


def _parsed(name: str, line: Any, unit: str, parse: Any) -> Record | jsonl.Reject:
    try:
        found: Record = parse(dict(line.fields))
        jsonl.check_finite(found)
        return found
    except ParseError as error:
        raw = line.raw or json.dumps(line.fields, ensure_ascii=False, default=str).encode(errors="surrogatepass")
        return jsonl.Reject(name, line.number, str(error), raw, error.value, unit)
