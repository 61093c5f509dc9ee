"""Documents and conversations to token ids: batches on all threads, ahead of what writes them, checked by decoding."""

import re
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import cached_property
from typing import Any, NamedTuple

from argosy.core.errors import StepError
from argosy.core.lazy import tokenizers
from argosy.corpus.tokens.markup import OWN, Markup, Pieces

PIECE_CHARACTERS = 500_000
_SPECIAL, _TEXT, _MARKED = "special token", "text", "text with special tokens"
# No pretoken of our own tokenizer reaches over a line's end into text, so that a cut here changes no token.
_CUT = re.compile(r"\n(?=\S)")
CHECK_EVERY = 50  # documents of which one is decoded
_CALLS, _AHEAD = 2, 4  # batches that are encoded at a time, so that no thread waits for a last text; held at most


class _Text(NamedTuple):
    """Pieces to encode for one document, and whether to check them by decoding."""

    name: str
    pieces: Pieces
    check: bool


class Encoder:
    """An encoder of batches; a piece that spells a special token stays text.

    Attributes:
        checked: texts that were decoded so far.
        changed: those of them that the tokenizer writes in another way, as its normalisation says."""

    def __init__(self, tokenizer: "tokenizers.Tokenizer", markup: Markup = OWN) -> None:
        self.checked = self.changed = 0
        self._tokenizer, self._markup = tokenizer, markup
        tokenizer.encode_special_tokens = True  # as text, whatever they spell
        vocabulary = tokenizer.get_vocab()
        self._special = {token: vocabulary[token] for token in markup.special}

    def special_ids(self) -> list[int]:
        """Return the ids of the special tokens, which no text has, sorted."""
        return sorted(self._special.values())

    def encode(self, documents: Iterable[tuple[str, Pieces]], batch_characters: int) -> Iterator[list[int]]:
        """Encode each (id, pieces), in order, while the caller works on those before; `batch_characters` bounds memory.
        Raises StepError: one of every CHECK_EVERY documents does not decode to its text (names it)."""
        waiting = deque[Future[list[list[int]]]]()
        with ThreadPoolExecutor(_CALLS) as pool:
            try:
                for batch in _batches(documents, batch_characters):
                    waiting.append(pool.submit(self._encode, batch))
                    if len(waiting) == _AHEAD:
                        yield from waiting.popleft().result()
                while waiting:
                    yield from waiting.popleft().result()
            finally:
                pool.shutdown(wait=False, cancel_futures=True)

    def _encode(self, batch: Sequence[_Text]) -> list[list[int]]:
        spans = [list(self._spans(text.pieces)) for text in batch]
        encoded = {kind: self._encode_texts([text for each in spans for text, its in each if its == kind], kind)
                   for kind in (_MARKED, _TEXT)}
        found: list[list[int]] = []
        for text, each in zip(batch, spans, strict=True):
            ids: list[int] = []
            for piece, kind in each:
                ids += [self._special[piece]] if kind == _SPECIAL else next(encoded[kind]).ids
            if text.check:
                self._check(text.name, text.pieces, ids)
            found.append(ids)
        return found

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
        tokenizer = self._tokenizer if kind == _TEXT else self._marking
        return iter(tokenizer.encode_batch_fast(texts, add_special_tokens=False) if texts else ())

    @cached_property
    def _marking(self) -> "tokenizers.Tokenizer":
        """The tokenizer that takes special tokens in a text for what they are."""
        marking = tokenizers.Tokenizer.from_str(self._tokenizer.to_str())
        marking.encode_special_tokens = False
        return marking

    def _check(self, name: str, pieces: Pieces, ids: list[int]) -> None:
        own = self._markup.own
        decoded = self._tokenizer.decode(ids, skip_special_tokens=not own)
        texts = [piece for piece, special in pieces if own or not special]
        text = "".join(texts)
        self.checked += 1
        if decoded == text:
            return
        if not own:
            # Tokenizers with ▁ for a space put one before a text, and before each part of a conversation.
            spaces = "" if len(texts) > 1 else " "
            decoded, text = (_spaced(each, spaces) for each in (decoded, "".join(map(self._normalized, texts))))
        if decoded != text:
            raise StepError(_not_the_text(name, text, decoded, own))
        self.changed += 1

    def _normalized(self, text: str) -> str:
        """Return the text as the tokenizer declares to change it (NFKC, lower case) before it encodes."""
        normalizer = self._tokenizer.normalizer
        return normalizer.normalize_str(text) if normalizer else text

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


def _spaced(text: str, space: str) -> str:
    return text.replace("\u2581", " ").lstrip(" ").replace(" ", space)


def _not_the_text(name: str, text: str, decoded: str, own: bool) -> str:
    differing = (at for at, (one, other) in enumerate(zip(decoded, text, strict=False)) if one != other)
    place = next(differing, min(len(decoded), len(text)))
    return (f"document {name} does not survive the tokenizer: at character {place} it has "
            f"{text[place : place + 20]!r}, decoded {decoded[place : place + 20]!r}; "
            + ("is it a byte-level tokenizer?" if own else "its normalisation does not say so, and bits a byte would "
               "not be those of the text: leave it out, or start from a model whose tokenizer has byte-level BPE or "
               "byte fallback"))


def text_bytes(pieces: Pieces) -> int:
    """Count the UTF-8 bytes of the text in the pieces, special tokens left out."""
    return sum(len(piece.encode()) for piece, special in pieces if not special)


def _batches(documents: Iterable[tuple[str, Pieces]], characters: int) -> Iterator[list[_Text]]:
    batch: list[_Text] = []
    size = 0
    for number, (name, pieces) in enumerate(documents):
        batch.append(_Text(name, pieces, number % CHECK_EVERY == 0))
        size += sum(len(piece) for piece, _ in pieces)
        if size >= characters:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch
