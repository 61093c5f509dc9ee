"""Files of text in any encoding, read as UTF-8."""

import codecs
import io
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import chain
from typing import IO, Any, cast

from argosy.corpus.data.jsonl import BLOCK, Damaged, Reject, open_binary
from argosy.corpus.data.sources import AUTO, UTF8, InputFile, SourceConfig

_MARK = "argosy.mark"  # the error handler that stands a surrogate in for each byte that is no text, and back
_SHOWN = 1000  # bytes of a file that is too long
_SURROGATES = 0xDC00
_MARKS = ((codecs.BOM_UTF8, UTF8), (codecs.BOM_UTF32_LE, "utf-32"), (codecs.BOM_UTF32_BE, "utf-32"),
          (codecs.BOM_UTF16_LE, "utf-16"), (codecs.BOM_UTF16_BE, "utf-16"))  # fmt: skip


def _mark(error: UnicodeError) -> tuple[str | bytes, int]:
    if isinstance(error, UnicodeDecodeError):
        return "".join(chr(_SURROGATES + byte) for byte in error.object[error.start : error.end]), error.end
    assert isinstance(error, UnicodeEncodeError)
    return bytes(ord(each) & 0xFF for each in error.object[error.start : error.end]), error.end


codecs.register_error(_MARK, _mark)


@contextmanager
def open_text(file: InputFile, config: SourceConfig) -> Iterator[tuple[IO[bytes], str]]:
    """Open a file's text as UTF-8, unpacked, with the name of the encoding that it has; bytes that are no text in it
    come as bytes that are no UTF-8.

    Raises Damaged, at the first read beyond ASCII: it is UTF-8, and another encoding is set."""
    with open_binary(file.path) as stream:
        encoding = UTF8 if file.format == "documents" else config.encoding
        if encoding == UTF8:
            yield stream, UTF8
            return
        head = stream.read(BLOCK)
        found = _detected(head) if encoding == AUTO else encoding
        blocks = chain((head,), iter(lambda: stream.read(BLOCK), b""))
        checked = blocks if found.startswith("utf") else _checked(blocks, found)
        yield cast("IO[bytes]", io.BufferedReader(_Utf8(checked, found), BLOCK)), found


def read_text(file: InputFile, config: SourceConfig) -> str | Reject:
    """Read a file that is one document, or why it is none."""
    with open_text(file, config) as (stream, encoding):
        raw = read_whole(stream, file, config)
    if isinstance(raw, Reject):
        return raw
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError:
        return Reject(file.label, 1, f"invalid {encoding.upper()}", as_in_file(raw, encoding), unit="record")
    return Reject(file.label, 1, "NUL byte (not a text file, or UTF-16)", raw, unit="record") if "\0" in text else text


def read_whole(stream: IO[bytes], file: InputFile, config: SourceConfig) -> bytes | Reject:
    """Read a file that is one document; a longer one than `record_bytes` is set aside."""
    raw = stream.read(config.record_bytes + 1)
    if len(raw) > config.record_bytes:
        return Reject(file.label, 1, f"longer than {config.record_bytes} bytes", raw[:_SHOWN], unit="record")
    return raw


def as_in_file(raw: bytes, encoding: str) -> bytes:
    """Return bytes that `open_text` gave, as they lie in the file."""
    return raw if encoding == UTF8 else raw.decode(UTF8, "surrogatepass").encode(encoding, _MARK)


def _is_utf8(head: bytes) -> bool:
    try:
        codecs.getincrementaldecoder(UTF8)().decode(head)  # whose last character may be cut
    except UnicodeDecodeError:
        return False
    return True


def _checked(blocks: Iterator[bytes], encoding: str) -> Iterator[bytes]:
    """Yield blocks, of which the first with other characters than ASCII's is not UTF-8."""
    for block in blocks:
        if not block.isascii():
            if _is_utf8(block):
                raise Damaged(f"UTF-8 and not {encoding}", "data.source.encoding", block[:100])
            yield block
            break
        yield block
    yield from blocks


def _detected(head: bytes) -> str:
    from resiliparse.parse.encoding import detect_encoding

    found = next((name for mark, name in _MARKS if head.startswith(mark)), "")
    found = found or (UTF8 if _is_utf8(head) else detect_encoding(head) or UTF8)
    try:
        return codecs.lookup(found).name
    except LookupError:
        raise Damaged("unknown encoding", f"it seems to be {found}; set data.source.encoding", head[:100]) from None


class _Utf8(io.RawIOBase):
    """A stream of blocks in an encoding, as UTF-8."""

    def __init__(self, blocks: Iterator[bytes], encoding: str) -> None:
        self._blocks, self._held = blocks, b""
        self._decoder: codecs.IncrementalDecoder | None = codecs.getincrementaldecoder(encoding)(_MARK)
        self._errors = _MARK if encoding == UTF8 else "surrogatepass"  # what is no UTF-8 there stays as it is

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        while not self._held and self._decoder:
            block = next(self._blocks, b"")
            self._held = self._decoder.decode(block, not block).encode(UTF8, self._errors)
            self._decoder = self._decoder if block else None
        part, self._held = self._held[: len(buffer)], self._held[len(buffer) :]
        buffer[: len(part)] = part
        return len(part)
