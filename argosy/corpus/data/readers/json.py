"""JSON: an array of objects, one object, or an object on each line."""

import codecs
import json
import re
from collections.abc import Iterator
from typing import IO, Any

from argosy.corpus.data.jsonl import BLOCK, Damaged, Reject, check_finite, parse_object
from argosy.corpus.data.readers import Reader, Record, Span
from argosy.corpus.data.readers.encodings import as_in_file, open_text
from argosy.corpus.data.readers.jsonl import Jsonl
from argosy.corpus.data.schemas import Document, ParseError
from argosy.corpus.data.sources import InputFile, SourceConfig

_INVALID = re.compile("[\udc80-\udcff]")  # as what bytes that are no UTF-8 come
_SPACE = " \t\r\n"
_SHOWN = 1000  # characters of what is broken
_ESCAPED = "surrogateescape"


class Json(Reader):
    """JSON. An array is read element by element, in bounded memory; what is broken in one breaks the rest of it."""

    name = "json"
    suffixes = (".json",)
    names_channels = True
    unit = "record"

    def read(self, file: InputFile, span: Span, config: SourceConfig) -> Iterator[Record | Document | Reject]:
        """Yield the objects of the file."""
        with open_text(file, config) as (stream, _):
            head = stream.read(config.record_bytes + 1)
        first = head.removeprefix(codecs.BOM_UTF8).lstrip()
        if first[:1] == b"[":
            yield from _elements(file, config)
        elif first[:1] == b"{" and (record := _whole(head, first, config)) is not None:
            yield Record(1, 0, record)
        else:
            yield from Jsonl().read(file, span, config)


def _whole(head: bytes, first: bytes, config: SourceConfig) -> dict[str, Any] | None:
    """The one object that a file is; None where its first line is an object already, or it is none."""
    if len(head) > config.record_bytes:
        return None
    try:
        line = parse_object(first.partition(b"\n")[0].decode())
        return line if b"\n" not in first.strip() else None
    except (ParseError, UnicodeDecodeError):
        pass
    try:
        return parse_object(first.decode())
    except (ParseError, UnicodeDecodeError):
        return None


def _elements(file: InputFile, config: SourceConfig) -> Iterator[Record | Reject]:
    with open_text(file, config) as (stream, encoding):
        for number, (offset, value, text) in enumerate(_Array(stream, config.record_bytes), 1):
            raw = text.encode(errors=_ESCAPED)
            bad = "" if isinstance(value, dict) else "not a JSON object"
            try:
                check_finite(value, text)
            except ParseError as error:
                bad = str(error)
            if not text.isascii() and _INVALID.search(text):
                bad, raw = f"invalid {encoding.upper()}", as_in_file(raw, encoding)
            yield (Reject(file.label, number, bad, raw, unit=Json.unit) if bad
                   else Record(number, offset, value, raw=raw))


class _Array(Iterator[tuple[int, Any, str]]):
    """The elements of an array, with as much of its text in memory as one needs."""

    def __init__(self, stream: IO[bytes], most: int) -> None:
        self._stream, self._most = stream, most
        self._decode = codecs.getincrementaldecoder("utf-8")(errors=_ESCAPED).decode
        self._parse = json.JSONDecoder().raw_decode
        self._text, self._ended = "", False
        self._at = 0  # in `_text`
        self._offset = 0  # the byte of that place
        self._skip("\ufeff")
        if self._text[self._at : self._at + 1] == "[":
            self._go(self._at + 1)

    def __next__(self) -> tuple[int, Any, str]:
        """Return the next element: its first byte, its value and its text. Raises StopIteration: there is none;
        Damaged: the rest cannot be parsed."""
        self._skip(",")
        if self._text[self._at : self._at + 1] == "]":
            self._go(self._at + 1)
            self._skip("")
            if more := self._text[self._at : self._at + _SHOWN]:
                raise Damaged("more than one array", f"from byte {self._offset} on", more.encode(errors=_ESCAPED))
            raise StopIteration
        size = BLOCK
        while True:
            try:
                value, end = self._parse(self._text, self._at)
                break
            except (ValueError, RecursionError) as error:
                if self._ended or len(self._text) - self._at > self._most:
                    shown = self._text[self._at : self._at + _SHOWN].encode(errors=_ESCAPED)
                    raise Damaged("the array is broken from here on", str(error), shown) from None
            self._more(size)
            size *= 2
        raw, offset = self._text[self._at : end], self._offset
        self._go(end)
        return offset, value, raw

    def _go(self, end: int) -> None:
        passed = self._text[self._at : end]
        self._offset += len(passed) if passed.isascii() else len(passed.encode(errors=_ESCAPED))
        self._at = end

    def _skip(self, extra: str) -> None:
        """Go to the next character that is no space and none of `extra`."""
        while True:
            end = self._at
            while end < len(self._text) and self._text[end] in _SPACE + extra:
                end += 1
            self._go(end)
            if end < len(self._text) or self._ended:
                return
            self._more(BLOCK)

    def _more(self, size: int) -> None:
        raw = self._stream.read(size)
        self._ended = not raw
        self._text, self._at = self._text[self._at :] + self._decode(raw, final=not raw), 0
