"""WARC and WET archives: the pages and texts in them, record by record, through fastwarc.

Nothing is left out in silence: a response without text (an image, a redirect) is a reject without a fault, a broken
record one with its place, and reading goes on at the next record that can be found behind it."""

import re
import zlib
from collections.abc import Iterator
from typing import IO, Any, NamedTuple

from argosy.core.store.remote import open_file
from argosy.corpus.data.jsonl import BLOCK, Reject
from argosy.corpus.data.readers import Reader, Record, Span
from argosy.corpus.data.readers.html import decode, page_text
from argosy.corpus.data.sources import InputFile, SourceConfig

HTML = ("text/html", "application/xhtml+xml")
_MAGIC = b"\x1f\x8b\x08"  # of a member of gzip
_BEGIN = re.compile(rb"WARC/1\.\d\r?\n[A-Za-z-]+: ")
_BEGIN_PACKED = re.compile(re.escape(_MAGIC))
_HEAD = 2**16  # bytes of a member in which its record's first line is; more than headers of HTTP have
_OVERLAP = 64  # bytes: more than a mark
_SHOWN = 1000
_GZIP = re.compile(rb"(?:[^\r\n]+\r?\n)*?content-encoding:[ \t]*(?:x-)?gzip", re.IGNORECASE)  # in the headers
_WITH_TEXT = ("response", "resource", "conversion")
_WITHOUT = ("warcinfo", "request", "metadata", "revisit")


class Warc(Reader):
    """WARC, packed record by record or not at all; requests, metadata and revisits hold no text of their own."""

    name = "warc"
    suffixes = (".warc", ".wet")
    unit = "record"

    def read(self, file: InputFile, span: Span, config: SourceConfig) -> Iterator[Record | Reject]:
        """Yield the texts of responses, resources and conversions; a record is believed when what follows is one."""
        start: int | None = 0
        number = 0
        while start is not None:
            before: _Found | None = None
            try:
                for found in _records(file.path, start, config.record_bytes + _HEAD):
                    if before:
                        number += 1
                        yield from _items(before, number, file, config)
                    before = found
                problem, start = "", None
            except _Broken as error:
                problem, start = str(error), _next_record(file.path, before.place if before else start or 0)
            number += 1
            if before and problem and _BEGIN.search(before.body):  # it has swallowed what is read next
                yield _broken(file, number, "record of a wrong length", before, problem)
                continue
            if before:
                yield from _items(before, number, file, config)
            if problem and not (before and start is None and before.is_short):
                number += bool(before)
                place = "its beginning" if before is None else f"the record at byte {before.place}"
                until = f"byte {start}" if start is not None else "its end"
                yield Reject(file.label, number, "damaged or cut off", b"",
                             f"from behind {place} to {until}: {problem}", self.unit)


class _Found(NamedTuple):
    place: int
    record: Any
    body: bytes
    """up to so many bytes as may be held"""
    is_short: bool
    """whether the file has less of it than it says"""


class _Broken(Exception):
    """The bytes from here on are no record."""


def _records(path: str, start: int, most: int) -> Iterator[_Found]:
    """Yield records from byte `start` on. Raises _Broken: something else comes, or the last one is cut off."""
    from fastwarc.warc import ArchiveIterator

    place = start
    with open_file(path) as stream:
        stream.seek(start)
        records = iter(ArchiveIterator(stream, parse_http=False))
        while True:
            try:
                record = next(records, None)
                if record is None:
                    break
                place = start + record.stream_pos
                body = record.reader.read(min(record.content_length, most))
            except (OSError, ValueError) as error:
                if isinstance(error, OSError) and error.errno is not None:
                    raise
                raise _Broken(str(error)) from None
            is_short = len(body) < min(record.content_length, most)
            yield _Found(place, record, body, is_short)
            if is_short and _BEGIN.search(body):
                raise _Broken("it is longer than the file")
        _check_end(stream, place)


def _check_end(stream: IO[bytes], place: int) -> None:
    """Check that the last member of gzip is whole, which fastwarc does not tell."""
    stream.seek(place)
    raw = stream.read(BLOCK)
    if not raw.startswith(_MAGIC):
        return
    member = zlib.decompressobj(31)
    try:
        while raw:
            member.decompress(raw)
            if member.eof and (raw := member.unused_data.lstrip(b"\0")):
                member = zlib.decompressobj(31)
            else:
                raw = stream.read(BLOCK)
    except zlib.error as error:
        raise _Broken(str(error)) from None
    if not member.eof:
        raise _Broken("the last member of gzip has no end")


def _next_record(path: str, after: int) -> int | None:
    """Find the first byte of the next record behind byte `after`; None: there is none."""
    with open_file(path) as stream:
        packed = stream.read(len(_MAGIC)) == _MAGIC
        stream.seek(after + 1)
        base, held = after + 1, b""
        while raw := stream.read(BLOCK):
            held += raw
            for match in (_BEGIN_PACKED if packed else _BEGIN).finditer(held):
                if not packed or _begins(path, base + match.start()):
                    return base + match.start()
            base, held = base + max(0, len(held) - _OVERLAP), held[-_OVERLAP:]
    return None


def _begins(path: str, place: int) -> bool:
    with open_file(path) as stream:
        stream.seek(place)
        try:
            return zlib.decompressobj(31).decompress(stream.read(_HEAD), 8).startswith(b"WARC/1.")
        except zlib.error:
            return False


def _items(found: _Found, number: int, file: InputFile, config: SourceConfig) -> Iterator[Record | Reject]:
    kind = str(found.record.record_type).rpartition(".")[2].lower()
    if kind in _WITHOUT:
        return
    if kind not in _WITH_TEXT:
        yield _broken(file, number, "record of an unknown type", found)
    elif found.is_short:
        yield _broken(file, number, "record that is cut off", found)
    elif not found.body:
        yield _broken(file, number, "record without content", found)
    elif len(found.body) < found.record.content_length:
        yield _broken(file, number, f"longer than {config.record_bytes} bytes", found)
    else:
        yield _text(found, kind, number, file, config)


def _text(found: _Found, kind: str, number: int, file: InputFile, config: SourceConfig) -> Record | Reject:
    record, body = found.record, found.body
    headers = record.headers
    content, charset, status = headers.get("Content-Type") or "", "", None
    if kind == "response" and content.startswith("application/http"):
        record.set_bytes_content(body)
        try:
            packed = _GZIP.match(body)  # of which fastwarc gives what there is
            record.parse_http(auto_decode="transfer" if packed else "all")
            body = record.reader.read(config.record_bytes + 1)  # unpacked it may be of any length
            if packed and body.startswith(_MAGIC):
                body = _unpacked(body, config.record_bytes + 1)
        except (OSError, ValueError, zlib.error) as error:
            return _broken(file, number, "broken HTTP response", found, str(error))
        content, charset = record.http_headers.get("Content-Type") or "", record.http_charset or ""
        status = record.http_headers.status_code
    url = (headers.get("WARC-Target-URI") or "").strip("<> ")
    page = Page(url, body, content, charset, status, headers.get("WARC-Date") or "",
                headers.get("WARC-Identified-Content-Language") or "")
    return page_record(page, number, found.place, file, config)


def _unpacked(packed: bytes, most: int) -> bytes:
    """Return up to `most` bytes of a member of gzip. Raises ValueError: neither it nor the page in it has an end."""
    member = zlib.decompressobj(31)
    body = member.decompress(packed, most)
    if not member.eof and len(body) < most and not body[-100:].lower().rstrip().endswith(b"</html>"):
        raise ValueError("the content is cut off")
    return body


class Page(NamedTuple):
    """A page in an archive."""

    url: str
    body: bytes
    content: str
    """Its content type."""
    charset: str
    status: int | None
    date: str
    languages: str = ""


def page_record(page: Page, number: int, place: int, file: InputFile, config: SourceConfig) -> Record | Reject:
    """Make the record of a page; one that holds no text is a reject without a fault."""
    kind = page.content.partition(";")[0].strip().lower()

    def without(reason: str, fault: bool = False) -> Reject:
        return Reject(file.label, number, reason, b"", page.url, Warc.unit, fault)

    if page.url.startswith("metadata:"):  # arguments and log of what made the archive
        return without("metadata of the archive")
    if page.status is not None and page.status != 200:
        return without(f"HTTP status {page.status}")
    if kind not in HTML and kind != "text/plain":
        return without(f"content type {kind or 'unknown'}")
    if len(page.body) > config.record_bytes:
        return without(f"longer than {config.record_bytes} bytes", fault=True)
    if kind in HTML:
        text, title = page_text(page.body, page.charset, config.html)
    else:
        text, title = decode(page.body, page.charset), ""
    if not text or text.isspace():
        return without("page without text")
    known = {"url": page.url, "title": title, "date": page.date, "languages": page.languages}
    fields = {config.text_field: text} | {key: value for key, value in known.items() if value}
    return Record(number, place, fields, source=page.url)


def _broken(file: InputFile, number: int, reason: str, found: _Found, detail: str = "") -> Reject:
    value = f"at byte {found.place}" + (f": {detail}" if detail else "")
    return Reject(file.label, number, reason, found.body[:_SHOWN], value, Warc.unit)
