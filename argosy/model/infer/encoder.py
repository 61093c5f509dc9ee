"""Texts to tokens, once for all checkpoints of a process that share a tokenizer, and the bytes of each token.

A piece of a character has bytes too, which its decoded text (a replacement sign) does not show: byte-level BPE writes
bytes as printable characters (Radford et al., GPT-2), SentencePiece writes a space as "▁" and byte fallback as <0xE4>.
"""

import hashlib
import json
import re
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

from argosy.model.infer.rows import Tokens
from argosy.model.weights.pretrained import load_tokenizer

_FALLBACK = re.compile(r"<0x([0-9A-Fa-f]{2})>")
_UNKNOWN = "�"
_PLAIN = (*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100))  # printable Latin-1 stands for itself,
_OTHERS = (byte for byte in range(256) if byte not in _PLAIN)  # and characters from U+0100 on for the other bytes
_BYTES = {chr(byte): byte for byte in _PLAIN} | {chr(256 + place): byte for place, byte in enumerate(_OTHERS)}
_KEPT = 400_000  # texts whose tokens are remembered


class TokenBytes:
    """`of[id]` is a token's bytes; None for special tokens and for those whose bytes cannot be known."""

    def __init__(self, tokenizer: Any) -> None:
        self.of = _bytes_of(tokenizer)
        ordered = sorted((token, index) for index, token in enumerate(self.of) if token)
        self._sorted = [token for token, _ in ordered]
        self._ids = [index for _, index in ordered]

    def starting_with(self, start: bytes) -> list[int]:
        """List ids of the tokens whose bytes begin with `start` (not empty)."""
        low = bisect_left(self._sorted, start)
        after = start.rstrip(b"\xff")  # the first bytes that sort behind all that begin with `start`
        end = after[:-1] + bytes([after[-1] + 1]) if after else None
        high = len(self._sorted) if end is None else bisect_left(self._sorted, end)
        return self._ids[low:high]

    def within(self, text: bytes) -> list[int]:
        """List ids of the tokens whose bytes are a proper beginning of `text`."""
        found = []
        for size in range(1, len(text)):
            at = bisect_left(self._sorted, text[:size])
            while at < len(self._sorted) and self._sorted[at] == text[:size]:
                found.append(self._ids[at])
                at += 1
        return found

    def join(self, tokens: Iterable[int]) -> bytes | None:
        """Join the bytes of tokens; None where one of them has none."""
        parts = [self.of[token] if token < len(self.of) else None for token in tokens]
        return None if None in parts else b"".join(part for part in parts if part is not None)


@lru_cache(maxsize=4)
def token_bytes(tokenizer: Any) -> TokenBytes:
    """Compute the bytes of a transformers tokenizer's tokens, once."""
    return TokenBytes(tokenizer)


def _bytes_of(tokenizer: Any) -> list[bytes | None]:
    names: Sequence[str | None] = tokenizer.convert_ids_to_tokens(list(range(len(tokenizer))))
    added = getattr(tokenizer, "added_tokens_decoder", {})
    special = {*tokenizer.all_special_ids, *(index for index, token in added.items() if token.special)}
    to_bytes = _reader(tokenizer, names)
    found: list[bytes | None] = []
    for index, name in enumerate(names):
        if name is None or index in special:
            found.append(None)
        elif index in added:
            found.append(str(added[index].content).encode())
        else:
            text = to_bytes(name) if to_bytes else tokenizer.decode([index]).encode()
            found.append(None if text is not None and _UNKNOWN.encode() in text else text)
    return found


def _reader(tokenizer: Any, names: Sequence[str | None]) -> Any:
    """Choose the function that reads a token's name; None where only decoding tells its bytes."""
    backend = getattr(tokenizer, "backend_tokenizer", None)
    decoder = json.dumps(json.loads(backend.to_str()).get("decoder")) if backend is not None else ""
    if '"ByteLevel"' in decoder:
        return lambda name: bytes(_BYTES[c] for c in name) if all(c in _BYTES for c in name) else None
    sentencepiece = any(name and name.startswith("▁") for name in names)
    if '"ByteFallback"' in decoder or '"Metaspace"' in decoder or sentencepiece:
        return _sentencepiece
    return None


def _sentencepiece(name: str) -> bytes:
    byte = _FALLBACK.fullmatch(name)
    return bytes([int(byte[1], 16)]) if byte else name.replace("▁", " ").encode()


class Encoder:
    """A tokenizer that remembers the texts that it has encoded: a suite has the same for every checkpoint of a line."""

    def __init__(self, tokenizer: Any) -> None:
        self.tokenizer = tokenizer
        self._cache: dict[tuple[str, bool], Tokens] = {}

    def encode(self, texts: Sequence[str], special: bool = True) -> list[Tokens]:
        """Encode texts, with the special tokens that the tokenizer itself adds if `special`."""
        new = list(dict.fromkeys(text for text in texts if (text, special) not in self._cache))
        if len(self._cache) + len(new) > _KEPT:
            self._cache.clear()
            new = list(dict.fromkeys(texts))
        if new:
            tokens = self._tokens(new, special)
            self._cache.update(((text, special), tuple(ids)) for text, ids in zip(new, tokens, strict=True))
        return [self._cache[text, special] for text in texts]

    def _tokens(self, texts: list[str], special: bool) -> list[list[int]]:
        """Encode as transformers does. It makes a dictionary of each text, which takes longer than to encode it, so all
        are the Rust tokenizer's own (with its settings, which a first call has made) where the two agree on the
        first."""
        from transformers import PreTrainedTokenizerFast

        own = getattr(type(self.tokenizer), "_encode_plus", None)  # another class may encode in a way of its own
        if own is not None and own is getattr(PreTrainedTokenizerFast, "_encode_plus", None):
            first = self._by_transformers(texts[:1], special)
            encoded = self.tokenizer.backend_tokenizer.encode_batch_fast(texts, add_special_tokens=special)
            tokens = [each.ids for each in encoded]
            if tokens[:1] == first:
                return tokens
        return self._by_transformers(texts, special)

    def _by_transformers(self, texts: list[str], special: bool) -> list[list[int]]:
        made = self.tokenizer(texts, add_special_tokens=special, return_attention_mask=False)
        ids: list[list[int]] = made["input_ids"]
        return ids


def load_encoder(path: Path) -> Encoder:
    """Load the encoder of a checkpoint's tokenizer; the same one for checkpoints whose tokenizer files are equal."""
    digest = hashlib.sha256()
    patterns = ("*token*", "vocab*", "merges*", "chat_template*")
    for file in sorted(file for pattern in patterns for file in path.glob(pattern)):
        if file.is_file():
            digest.update(file.name.encode() + b"\0" + file.read_bytes())
    return _load(_Source(path, digest.hexdigest()))


@dataclass(frozen=True)
class _Source:
    """A directory that equals another of the same digest."""

    path: Path = field(compare=False)
    digest: str


@lru_cache(maxsize=4)
def _load(source: _Source) -> Encoder:
    return Encoder(load_tokenizer(source.path))
