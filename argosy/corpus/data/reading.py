"""Documents and rejects of a shard, in order; files that are damaged, gone or changed are told apart."""

from collections.abc import Iterator, Sequence
from typing import Any

from argosy.core.errors import InputError, StepError
from argosy.core.store.remote import is_uri, state
from argosy.corpus.data.counts import Counts, FileCounts
from argosy.corpus.data.inventory import Piece, Shard, hash_span
from argosy.corpus.data.jsonl import DAMAGE, Damaged, Reject
from argosy.corpus.data.readers import READERS, Record, Span
from argosy.corpus.data.schemas import Document, ParseError, check_text
from argosy.corpus.data.sources import InputFile, SourceConfig

Item = Document | Reject


def read_shard(shard: Shard, config: SourceConfig, counts: Counts | None = None) -> Iterator[Item]:
    """Yield the documents and rejects of a shard, in the order of the corpus.

    A damaged file ends in a reject that says so, and the next one is read. `counts`: filled here.
    Raises InputError: a file is gone, or is not what the inventory has listed, or two channels have one name;
    StepError: its disk or its store fails."""
    counts = Counts() if counts is None else counts
    for piece in shard.pieces:
        yield from read_piece(piece, config, counts)


def read_piece(piece: Piece, config: SourceConfig, counts: Counts) -> Iterator[Item]:
    """Yield the documents and rejects of a piece of a file; as read_shard."""
    file, ends = piece.file, (*piece.file.cuts[1:], None)
    before = _verify(piece)
    # Of a text each cut is read alone, as a document ends there whoever reads what follows.
    step = 1 if READERS[file.format].cut_after == "blank" else piece.last - piece.first
    for first in range(piece.first, piece.last, step):
        yield from read_file(file, config, counts, Span(file.cuts[first], ends[first + step - 1]))
    if _state(file) != before:
        raise _changed(file)


def read_file(file: InputFile, config: SourceConfig, counts: Counts, span: Span | None = None) -> Iterator[Item]:
    """Yield the documents and rejects of a file that was only listed, or of a span of it; as read_shard."""
    counts.files.setdefault(file.label, FileCounts())
    reader, number = READERS[file.format], 0
    try:
        for record in reader.read(file, span or Span(), config):
            if isinstance(record, Record):
                number = record.number
                item, lines = _document(file, record, config, counts, reader.unit), record.lines
            else:
                item, lines = record, 1
                number = item.line if isinstance(item, Reject) else number
            counts.count(file, item, lines)
            yield item
    except FileNotFoundError:
        raise _gone(file) from None
    except (Damaged, *DAMAGE) as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise StepError(f"{file.path} cannot be read after {reader.unit} {number} ({error}): run again, or look "
                            "after its disk") from error
        item = _damage(file, number, reader.unit, error)
        counts.count(file, item, 1)
        counts.files[file.label].damaged = f"{item.reason} after {reader.unit} {number}: {item.value}"
        yield item


def _damage(file: InputFile, number: int, unit: str, error: BaseException) -> Reject:
    if isinstance(error, Damaged):
        return Reject(file.label, number + 1, error.reason, error.raw, error.detail, unit)
    return Reject(file.label, number + 1, "damaged or cut off", b"", str(error), unit)


def _document(file: InputFile, record: Record, config: SourceConfig, counts: Counts, unit: str) -> Item:
    place = f"{file.label}:{record.number}" if record.number else f"{file.label}@{record.offset}"
    fields = record.fields
    try:
        text = check_text(fields, config.text_field)
        if len(text) * 4 > config.record_bytes and len(text.encode()) > config.record_bytes:  # of a table
            raise ParseError(f"longer than {config.record_bytes} bytes")
    except ParseError as error:
        raw = record.raw or _raw(fields)
        return Reject(file.label, record.number or record.offset, str(error), raw,
                      unit=unit if record.number else "byte")
    metadata = dict(fields)
    del metadata[config.text_field]
    lang = metadata.pop(config.lang_field, None)
    given = str(metadata.pop(config.channel_field, None) or config.channel or file.folder or "text")
    if file.split:
        metadata.setdefault("split", file.split)
    return Document(id=place, text=text, channel=counts.name_channel(given, place), source=record.source or place,
                    lang=lang if isinstance(lang, str) and lang else config.lang, metadata=metadata,
                    offset=record.offset)


def _raw(fields: Any) -> bytes:
    import json

    return json.dumps(fields, ensure_ascii=False, default=str).encode(errors="surrogatepass")


def _verify(piece: Piece) -> Sequence[object]:
    """Check that the bytes of a piece are those of the inventory; return the file's state."""
    file, cuts = piece.file, piece.file.cuts
    before = _state(file)
    if before[0] != file.size:
        raise _changed(file)
    if is_uri(file.path):
        if before[1] != cuts[0].hash:
            raise _changed(file)
        return before
    try:
        with open(file.path, "rb") as stream:
            for number in range(piece.first, piece.last):
                end = cuts[number + 1].start if number + 1 < len(cuts) else file.size
                if hash_span(stream, cuts[number].start, end) != cuts[number].hash:
                    raise _changed(file)
    except FileNotFoundError:
        raise _gone(file) from None
    except OSError as error:
        raise StepError(f"{file.path} cannot be read ({error}): run again, or look after its disk") from error
    return before


def _state(file: InputFile) -> Sequence[object]:
    try:
        return state(file.path)
    except FileNotFoundError:
        raise _gone(file) from None
    except OSError as error:
        raise StepError(f"{file.path} cannot be read ({error}): run again, or look after its store") from error


def _gone(file: InputFile) -> InputError:
    return InputError(f"data.inputs: {file.label} is not there any more ({file.path}), though the data step has listed "
                      "it: put it back, or run the same command again, which lists anew")


def _changed(file: InputFile) -> InputError:
    return InputError(f"data.inputs: {file.label} has changed since the data step listed it ({file.path}), so that its "
                      "documents would not be what the digest says: run the same command again, which lists anew")
