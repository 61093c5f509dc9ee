"""Documents and rejects of a shard, in order, and a sample of a corpus; damaged, gone and changed files are named."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from heapq import nsmallest

from argosy.core.errors import InputError, StepError
from argosy.core.store.remote import is_uri, state
from argosy.corpus.data.counts import Counts, FileCounts
from argosy.corpus.data.inventory import Piece, Shard, hash_span
from argosy.corpus.data.jsonl import DAMAGE, Damaged, JsonlWriters, Reject
from argosy.corpus.data.listing import list_inputs
from argosy.corpus.data.readers import READERS, Record, Span
from argosy.corpus.data.schemas import Document, ParseError, check_text
from argosy.corpus.data.sources import InputFile, SourceConfig, channel_name

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
        raw = record.raw or json.dumps(fields, ensure_ascii=False, default=str).encode(errors="surrogatepass")
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


SAMPLE_BYTES = 256 * 2**20  # that are read for a sample
QUICK_BYTES = 20_000_000  # of records: read in about a second
REJECTS = "rejects/documents"


@dataclass
class Sample:
    """Result of a look at the inputs."""

    documents: list[Document]
    """Documents whose ids have the least hashes, in that order."""
    counts: Counts
    complete: bool
    """Whether all inputs were read."""


def read_sample(files: Sequence[InputFile], config: SourceConfig, count: int, writers: JsonlWriters,
                most: int = SAMPLE_BYTES) -> Sample:
    """Read all files of up to `most` bytes, else so many bytes of cuts that a hash of their places chooses; rejects go
    to `rejects/documents`. A function of the files alone. Raises InputError, StepError: as read_shard."""
    counts = Counts()
    pieces = [Piece(file, number, number + 1) for file in files for number in range(len(file.cuts))]
    complete = sum(piece.weight for piece in pieces) <= most
    chosen = [Piece(file, 0, len(file.cuts)) for file in files] if complete else _choose(pieces, most)
    kept = nsmallest(count, _documents(chosen, config, counts, writers, 0 if complete else most),
                     key=lambda document: hash_of(document.id))
    return Sample(kept, counts, complete)


def hash_of(text: str) -> bytes:
    """Return 8 bytes that are the same for a text on every machine."""
    return blake2b(text.encode(), digest_size=8).digest()


def _choose(pieces: Sequence[Piece], most: int) -> list[Piece]:
    """Take pieces by the hash of their place until they hold `most` bytes, in the order of the corpus; one at least."""
    ranked = sorted(range(len(pieces)), key=lambda at: hash_of(f"{pieces[at].file.label}@{pieces[at].first}"))
    chosen, held = [], 0
    for at in ranked:
        chosen.append(at)
        if (held := held + pieces[at].weight) >= most:
            break
    return [pieces[at] for at in sorted(chosen)]


def _documents(pieces: Sequence[Piece], config: SourceConfig, counts: Counts, writers: JsonlWriters,
               most: int) -> Iterator[Document]:
    """Yield the documents of pieces; with `most`, no more of each than its share of so many bytes."""
    writers.open(REJECTS)
    for piece in pieces:
        held = 0
        for item in read_piece(piece, config, counts):
            if isinstance(item, Reject):
                writers.write(REJECTS, item.to_record())
                continue
            yield item
            held += len(item.text)
            if most and held >= most // len(pieces) + 1:  # of a file that cannot be cut, its beginning
                break


def input_channels(inputs: Sequence[str], config: SourceConfig) -> set[str] | None:
    """Return the channels of the documents in `inputs`; None where records name them that are too many to read now, or
    lie in a store. Raises InputError: as `list_inputs` and `read_shard`."""
    if any(map(is_uri, inputs)):
        return None
    files, _ = list_inputs(inputs, config, config.skip)
    records = [file for file in files if READERS[file.format].names_channels]
    if sum(file.size for file in records) > QUICK_BYTES:
        return None
    counts = Counts()
    for file in records:
        for _ in read_file(file, config, counts):
            pass
    texts = {channel_name(config.channel or file.folder or "text") for file in files if file not in records}
    return texts | set(counts.channels)
