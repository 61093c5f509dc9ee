"""The bytes that each token of a vocabulary stands for, whatever kind of tokenizer it is.

A piece of a character has bytes too, which its decoded text (a replacement sign) does not show: byte-level BPE writes
bytes as printable characters (Radford et al., GPT-2), SentencePiece writes a space as "▁" and byte fallback as <0xE4>.
"""

from __future__ import annotations

import json
import re
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Any

_FALLBACK = re.compile(r"<0x([0-9A-Fa-f]{2})>")
_UNKNOWN = "�"


class TokenBytes:
    """`of[id]` is a token's bytes; None for special tokens and for those whose bytes cannot be known."""

    def __init__(self, tokenizer: Any) -> None:
        self.of = _bytes_of(tokenizer)
        known = sorted((token, index) for index, token in enumerate(self.of) if token)
        self._sorted = [token for token, _ in known]
        self._ids = [index for _, index in known]

    def starting_with(self, start: bytes) -> list[int]:
        """Ids of the tokens whose bytes begin with `start` (not empty)."""
        low = bisect_left(self._sorted, start)
        after = start.rstrip(b"\xff")  # the first bytes that sort behind all that begin with `start`
        end = after[:-1] + bytes([after[-1] + 1]) if after else None
        high = len(self._sorted) if end is None else bisect_left(self._sorted, end)
        return self._ids[low:high]

    def within(self, text: bytes) -> list[int]:
        """Ids of the tokens whose bytes are a proper beginning of `text`."""
        found = []
        for size in range(1, len(text)):
            at = bisect_left(self._sorted, text[:size])
            while at < len(self._sorted) and self._sorted[at] == text[:size]:
                found.append(self._ids[at])
                at += 1
        return found

    def join(self, tokens: Iterable[int]) -> bytes | None:
        """What the tokens stand for together; None where one of them has no bytes."""
        found = [self.of[token] if token < len(self.of) else None for token in tokens]
        return None if None in found else b"".join(part for part in found if part is not None)


@lru_cache(maxsize=4)
def token_bytes(tokenizer: Any) -> TokenBytes:
    """Of a tokenizer of transformers; worked out once."""
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
    """How a token's name is read; None where only decoding tells."""
    backend = getattr(tokenizer, "backend_tokenizer", None)
    decoder = json.dumps(json.loads(backend.to_str()).get("decoder")) if backend is not None else ""
    if '"ByteLevel"' in decoder:
        return _byte_level
    sentencepiece = any(name and name.startswith("▁") for name in names)
    if '"ByteFallback"' in decoder or '"Metaspace"' in decoder or sentencepiece:
        return _sentencepiece
    return None


def _sentencepiece(name: str) -> bytes:
    byte = _FALLBACK.fullmatch(name)
    return bytes([int(byte[1], 16)]) if byte else name.replace("▁", " ").encode()


def _byte_level(name: str) -> bytes | None:
    table = _alphabet()
    return bytes(table[c] for c in name) if all(c in table for c in name) else None


@lru_cache(maxsize=1)
def _alphabet() -> dict[str, int]:
    """Character -> byte: printable Latin-1 stands for itself, the other bytes follow from U+0100 on."""
    plain = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(256) if byte not in plain]
    return {chr(byte): byte for byte in plain} | {chr(256 + place): byte for place, byte in enumerate(others)}
