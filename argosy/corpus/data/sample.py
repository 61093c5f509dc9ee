"""A look at the inputs before all of them are read: documents that filters learn from, counts, and channels."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from heapq import nsmallest

from argosy.core.store.remote import is_uri
from argosy.corpus.data.counts import Counts
from argosy.corpus.data.inventory import Piece
from argosy.corpus.data.jsonl import JsonlWriters, Reject
from argosy.corpus.data.listing import list_inputs
from argosy.corpus.data.readers import READERS
from argosy.corpus.data.reading import read_file, read_piece
from argosy.corpus.data.schemas import Document
from argosy.corpus.data.sources import InputFile, SourceConfig, channel_name

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
    lie in a store.

    Raises InputError: as `list_inputs` and `read_shard`."""
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
