"""Bytes of the user's files -> lines, objects and texts, with a reason for each that is not one."""

from __future__ import annotations

import codecs
import gzip
import json
import zlib
from collections.abc import Iterator, Mapping
from typing import IO, Any


class ParseError(Exception):
    """A line or row is not usable; the message is the reason that is counted, without its data."""


def read_lines(stream: IO[bytes], keep_blank: bool = False) -> Iterator[tuple[int, bytes, str]]:
    """(line number from 1, the bytes, "" or why they are unusable). Blank lines count but come only if asked for."""
    number = 0
    try:
        for number, raw in enumerate(stream, 1):
            line = raw.removeprefix(codecs.BOM_UTF8) if number == 1 else raw
            if keep_blank or line.strip():
                yield number, line, _problem(line)
    except (EOFError, gzip.BadGzipFile, zlib.error, OSError) as error:
        # What was read before the damage is kept; the damage itself is one reject.
        yield number + 1, str(error).encode(), "damaged compressed file"


def _problem(line: bytes) -> str:
    if b"\0" in line:
        return "NUL byte (not a text file, or UTF-16)"
    try:
        line.decode()
    except UnicodeDecodeError:
        return "invalid UTF-8"
    return ""


def parse_object(raw: bytes) -> dict[str, Any]:
    """A JSON object.

    Raises:
        ParseError: it is not one.
    """
    try:
        record = json.loads(raw)
    except (ValueError, RecursionError):
        raise ParseError("invalid JSON") from None
    if not isinstance(record, dict):
        raise ParseError("not a JSON object")
    return record


def check_text(record: Mapping[str, Any], field: str) -> str:
    """The record's text.

    Raises:
        ParseError: there is none, or it cannot be written as UTF-8.
    """
    if field not in record:
        raise ParseError(f"no field {field!r}")
    text = record[field]
    if not isinstance(text, str):
        raise ParseError(f"field {field!r} is not a string")
    if not text.strip():
        raise ParseError("empty text")
    try:
        text.encode()
    except UnicodeEncodeError:
        raise ParseError("text has a lone surrogate") from None
    return text
