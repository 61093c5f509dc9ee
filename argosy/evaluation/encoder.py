"""Texts to tokens, once for all checkpoints of a process that share a tokenizer."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

from argosy.evaluation.rows import Tokens

_KEPT = 400_000  # texts whose tokens are remembered


class Encoder:
    """A tokenizer that remembers what it has encoded: a suite asks every checkpoint of a line the same."""

    def __init__(self, tokenizer: Any) -> None:
        self.tokenizer = tokenizer
        self._known: dict[tuple[str, bool], Tokens] = {}
        self._vocabulary: list[str] = []

    def encode(self, texts: Sequence[str], special: bool = True) -> list[Tokens]:
        """Tokens of each text, with the special tokens that the tokenizer itself adds if `special`."""
        new = list(dict.fromkeys(text for text in texts if (text, special) not in self._known))
        if len(self._known) + len(new) > _KEPT:
            self._known.clear()
            new = list(dict.fromkeys(texts))
        if new:
            found = self._tokens(new, special)
            self._known.update(((text, special), tuple(ids)) for text, ids in zip(new, found, strict=True))
        return [self._known[text, special] for text in texts]

    def _tokens(self, texts: list[str], special: bool) -> list[list[int]]:
        """What transformers gives. It makes a dictionary of each text, which takes longer than to encode it, so all are
        the Rust tokenizer's own (with its settings, which a first call has made) where the two agree on the first."""
        backend = self._backend()
        if backend is not None:
            first = self._by_transformers(texts[:1], special)
            found = [each.ids for each in backend.encode_batch_fast(texts, add_special_tokens=special)]
            if found[:1] == first:
                return found
        return self._by_transformers(texts, special)

    def _by_transformers(self, texts: list[str], special: bool) -> list[list[int]]:
        made = self.tokenizer(texts, add_special_tokens=special, return_attention_mask=False)
        ids: list[list[int]] = made["input_ids"]
        return ids

    def _backend(self) -> Any:
        """The Rust tokenizer, where the class of the tokenizer has no encoding of its own."""
        from transformers import PreTrainedTokenizerFast

        own = getattr(type(self.tokenizer), "_encode_plus", None)
        same = own is not None and own is getattr(PreTrainedTokenizerFast, "_encode_plus", None)
        return self.tokenizer.backend_tokenizer if same else None

    def vocabulary(self) -> list[str]:
        """The text of each token id."""
        if not self._vocabulary:
            self._vocabulary = self.tokenizer.batch_decode([[index] for index in range(len(self.tokenizer))])
        return self._vocabulary


def load_encoder(path: Path) -> Encoder:
    """The encoder of a checkpoint's tokenizer; the same one for checkpoints whose tokenizer files are equal."""
    digest = hashlib.sha256()
    patterns = ("*token*", "vocab*", "merges*", "chat_template*")
    for file in sorted(found for pattern in patterns for found in path.glob(pattern)):
        if file.is_file():
            digest.update(file.name.encode() + b"\0" + file.read_bytes())
    return _load(_Source(path, digest.hexdigest()))


class _Source:
    """A directory that equals another of the same digest."""

    def __init__(self, path: Path, digest: str) -> None:
        self.path, self.digest = path, digest

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Source) and other.digest == self.digest

    def __hash__(self) -> int:
        return hash(self.digest)


@lru_cache(maxsize=4)
def _load(source: _Source) -> Encoder:
    from transformers import AutoTokenizer

    return Encoder(AutoTokenizer.from_pretrained(source.path))
