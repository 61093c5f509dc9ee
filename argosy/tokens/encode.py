"""Documents and conversations -> token ids: `<|bos|>` text `<|eos|>`."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from argosy.errors import StepError
from argosy.tokens.chat_template import BOS, EOS, SPECIAL_TOKENS, chat_pieces

if TYPE_CHECKING:
    from tokenizers import Tokenizer

PIECE_CHARACTERS = 500_000
# No pretoken reaches over a line's end into text, so that a cut here changes no token.
_CUT = re.compile(r"\n(?=\S)")

# A text is what a document is made of: its id, and pieces of which each is text or a special token.
Pieces = Sequence[tuple[str, bool]]


class Encoder:
    """Encodes in batches; a piece that spells a special token stays text."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        self._special = {token: tokenizer.get_vocab()[token] for token in SPECIAL_TOKENS}

    def special_ids(self) -> list[int]:
        """Ids of the special tokens, which no text has, sorted."""
        return sorted(self._special.values())

    def encode(self, documents: Iterable[tuple[str, Pieces]], batch_characters: int) -> Iterator[list[int]]:
        """Ids of each (id, pieces), in order; `batch_characters` at once bound the memory.

        Raises:
            StepError: the first document of a batch does not decode to its text (names it).
        """
        for batch in _batches(documents, batch_characters):
            yield from self._encode(batch)

    def _encode(self, batch: Sequence[tuple[str, Pieces]]) -> Iterator[list[int]]:
        texts = [part for _, pieces in batch for piece, special in pieces if not special for part in _parts(piece)]
        encoded = iter(self._tokenizer.encode_batch_fast(texts, add_special_tokens=False))
        for number, (name, pieces) in enumerate(batch):
            ids: list[int] = []
            for piece, special in pieces:
                if special:
                    ids.append(self._special[piece])
                else:
                    for _ in _parts(piece):
                        ids.extend(next(encoded).ids)
            if number == 0:
                self._check(name, pieces, ids)
            yield ids

    def _check(self, name: str, pieces: Pieces, ids: list[int]) -> None:
        decoded = self._tokenizer.decode(ids, skip_special_tokens=False)
        text = "".join(piece for piece, _ in pieces)
        if decoded != text:
            place = next((i for i, (a, b) in enumerate(zip(decoded, text, strict=False)) if a != b), len(decoded))
            raise StepError(
                f"document {name} does not survive the tokenizer: at character {place} it has "
                f"{text[place : place + 20]!r}, decoded {decoded[place : place + 20]!r}; is it a byte-level tokenizer?"
            )


def document_pieces(text: str) -> Pieces:
    """A document's pieces."""
    return (BOS, True), (text, False), (EOS, True)


def conversation_pieces(messages: Sequence[Mapping[str, Any]]) -> Pieces:
    """A conversation's pieces: as the chat template renders it, and the end token."""
    return *chat_pieces(messages), (EOS, True)


def text_bytes(pieces: Pieces) -> int:
    """UTF-8 bytes of the text in the pieces, special tokens left out."""
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


def _parts(text: str) -> Iterator[str]:
    """The text in parts of about PIECE_CHARACTERS, cut where that changes no token."""
    start = 0
    while len(text) - start > PIECE_CHARACTERS:
        cut = _CUT.search(text, start + PIECE_CHARACTERS)
        if cut is None:
            break
        yield text[start : cut.end()]
        start = cut.end()
    yield text[start:]
