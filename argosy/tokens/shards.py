"""Tokenized documents and conversations: encoded between two special tokens, and written as shards.

A shard is a channel of a split: ids, offsets and byte counts (docs/architecture.md)."""

import os
import re
import unicodedata
from array import array
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import IO, TYPE_CHECKING, Any

from argosy.errors import StepError
from argosy.store.files import temporary_of, write_json
from argosy.tokens.markup import OWN, Markup, Pieces

if TYPE_CHECKING:
    from tokenizers import Tokenizer

PIECE_CHARACTERS = 500_000
_SPECIAL, _TEXT, _MARKED = "special token", "text", "text with special tokens"
# No pretoken of our own tokenizer reaches over a line's end into text, so that a cut here changes no token.
_CUT = re.compile(r"\n(?=\S)")


class Encoder:
    """An encoder of batches; a piece that spells a special token stays text."""

    def __init__(self, tokenizer: "Tokenizer", markup: Markup = OWN) -> None:
        self._tokenizer, self._markup = tokenizer, markup
        vocabulary = tokenizer.get_vocab()
        self._special = {token: vocabulary[token] for token in markup.special}

    def special_ids(self) -> list[int]:
        """Return the ids of the special tokens, which no text has, sorted."""
        return sorted(self._special.values())

    def encode(self, documents: Iterable[tuple[str, Pieces]], batch_characters: int) -> Iterator[list[int]]:
        """Encode each (id, pieces), in order; `batch_characters` at once bound the memory.

        Raises StepError: the first document of a batch does not decode to its text (names it)."""
        for batch in _batches(documents, batch_characters):
            yield from self._encode(batch)

    def _encode(self, batch: Sequence[tuple[str, Pieces]]) -> Iterator[list[int]]:
        spans = [list(self._spans(pieces)) for _, pieces in batch]
        encoded = {kind: self._encode_texts([text for each in spans for text, its in each if its == kind], kind)
                   for kind in (_MARKED, _TEXT)}
        for number, ((name, pieces), each) in enumerate(zip(batch, spans, strict=True)):
            ids = [token for text, kind in each
                   for token in ([self._special[text]] if kind == _SPECIAL else next(encoded[kind]).ids)]
            if number == 0:
                self._check(name, pieces, ids)
            yield ids

    def _spans(self, pieces: Pieces) -> Iterator[tuple[str, str]]:
        """Yield what is encoded at once, and how. A conversation of another tokenizer is whole, so that it has the
        tokens of SFT: SentencePiece writes a space before a text, and not behind a special token in its middle."""
        turns = not self._markup.own and any(special for _, special in pieces[1:-1])
        if turns and not any(self._markup.spells(piece) for piece, special in pieces if not special):
            yield "".join(piece for piece, _ in pieces), _MARKED
            return
        for piece, special in pieces:
            yield from [(piece, _SPECIAL)] if special else ((part, _TEXT) for part in self._parts(piece))

    def _encode_texts(self, texts: list[str], kind: str) -> Iterator[Any]:
        if not texts:
            return iter(())
        self._tokenizer.encode_special_tokens = kind == _TEXT
        return iter(self._tokenizer.encode_batch_fast(texts, add_special_tokens=False))

    def _check(self, name: str, pieces: Pieces, ids: list[int]) -> None:
        own = self._markup.own
        decoded = self._tokenizer.decode(ids, skip_special_tokens=not own)
        text = "".join(piece for piece, special in pieces if own or not special)
        if not own:
            decoded, text = _comparable(decoded), _comparable(text)
        if decoded != text:
            place = next((i for i, (a, b) in enumerate(zip(decoded, text, strict=False)) if a != b), len(decoded))
            raise StepError(
                f"document {name} does not survive the tokenizer: at character {place} it has "
                f"{text[place : place + 20]!r}, decoded {decoded[place : place + 20]!r}; "
                + ("is it a byte-level tokenizer?" if own else "bits a byte would not be those of the text: leave it "
                   "out, or start from a model whose tokenizer has byte-level BPE or byte fallback")
            )

    def _parts(self, text: str) -> Iterator[str]:
        """Cut the text into parts of about PIECE_CHARACTERS, where that changes no token: none of other tokenizers."""
        start = 0
        while self._markup.own and len(text) - start > PIECE_CHARACTERS:
            cut = _CUT.search(text, start + PIECE_CHARACTERS)
            if cut is None:
                break
            yield text[start : cut.end()]
            start = cut.end()
        yield text[start:]


def _comparable(text: str) -> str:
    """Drop what tokenizers change harmlessly: SentencePiece puts a space before a text, and others compose letters."""
    return unicodedata.normalize("NFC", text).replace(" ", "")


def text_bytes(pieces: Pieces) -> int:
    """Count the UTF-8 bytes of the text in the pieces, special tokens left out."""
    return sum(len(piece.encode()) for piece, special in pieces if not special)


def _batches(documents: Iterable[tuple[str, Pieces]], characters: int) -> Iterator[list[tuple[str, Pieces]]]:
    batch: list[tuple[str, Pieces]] = []
    size = 0
    for document in documents:
        batch.append(document)
        size += sum(len(piece) for piece, _ in document[1])
        if size >= characters:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


SPLITS = ("train", "heldout")


def dtype_of(vocab_size: int) -> str:
    """Return the narrowest of the two integer types that hold every id."""
    return "uint16" if vocab_size <= 2**16 else "uint32"


class ChannelWriter:
    """Writer of one channel of one split; its files appear when `close` has written all of them."""

    def __init__(self, folder: Path, channel: str, dtype: str) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._folder = folder
        self._channel = channel
        self._type = "H" if dtype == "uint16" else "I"
        self._file: IO[bytes] = open(self._temporary("bin"), "wb")  # noqa: SIM115
        self._offsets = array("q", [0])
        self._bytes = array("q")

    def add(self, ids: Sequence[int], size: int) -> None:
        """Append a document of `ids` (closed by its end token), `size` UTF-8 bytes of text."""
        array(self._type, ids).tofile(self._file)
        self._offsets.append(self._offsets[-1] + len(ids))
        self._bytes.append(size)

    def counts(self) -> dict[str, int]:
        """Return the entry of this channel and split in index.json."""
        return {"tokens": self._offsets[-1], "documents": len(self._bytes), "bytes": sum(self._bytes)}

    def close(self) -> None:
        """Make the files appear, the tokens last."""
        import numpy as np

        for kind, values in (("offsets.npy", self._offsets), ("bytes.npy", self._bytes)):
            with open(self._temporary(kind), "wb") as file:
                np.save(file, np.array(values, dtype=np.int64))
                os.fsync(file.fileno())
            self._temporary(kind).replace(self._folder / f"{self._channel}.{kind}")
        self._file.flush()
        os.fsync(self._file.fileno())
        self._file.close()
        self._temporary("bin").replace(self._folder / f"{self._channel}.bin")

    def discard(self) -> None:
        """Remove what was written."""
        self._file.close()
        self._temporary("bin").unlink(missing_ok=True)

    def _temporary(self, kind: str) -> Path:
        return temporary_of(self._folder / f"{self._channel}.{kind}")


class TokensWriter:
    """Writer of all channels and splits; `index.json` is written last, when the block ends without an error.

    Args:
        tokenizer: its digest (argosy.tokens.tokenizer), for `index.json`.
        ids: number above all ids, where the vocabulary has gaps."""

    def __init__(self, root: Path, vocab_size: int, tokenizer: str = "", ids: int = 0) -> None:
        self._root = root
        self._vocab_size = vocab_size
        self._tokenizer = tokenizer
        self._dtype = dtype_of(max(vocab_size, ids))
        self._channels: dict[str, dict[str, ChannelWriter]] = {}

    def open(self, channel: str) -> None:
        """Make the channel's files, even if no document comes."""
        if channel not in self._channels:
            self._channels[channel] = {s: ChannelWriter(self._root / s, channel, self._dtype) for s in SPLITS}

    def add(self, channel: str, split: str, ids: Sequence[int], size: int) -> None:
        """Append a document to a channel that is open."""
        self._channels[channel][split].add(ids, size)

    def counts(self) -> dict[str, dict[str, dict[str, int]]]:
        """Return channel -> split -> tokens, documents, bytes."""
        return {
            name: {split: writer.counts() for split, writer in splits.items()}
            for name, splits in sorted(self._channels.items())
        }

    def __enter__(self) -> "TokensWriter":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for writer in (w for splits in self._channels.values() for w in splits.values()):
            writer.close() if kind is None else writer.discard()
        if kind is None:
            index = {"dtype": self._dtype, "vocab_size": self._vocab_size, "channels": self.counts()}
            if self._tokenizer:
                index["tokenizer"] = self._tokenizer
            write_json(self._root / "index.json", index)


SPECIAL_FILE = "special.json"  # of a tokenize step: their ids
