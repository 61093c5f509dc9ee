"""Tokenized documents and conversations in shards: per channel and split ids, offsets, byte counts (docs/files.md)."""

import os
from array import array
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import IO

from argosy.core.lazy import np
from argosy.core.store.files import temporary_of, write_json

SPLITS = ("train", "heldout")


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
        tokenizer: its digest (argosy.corpus.tokens.tokenizer), for `index.json`.
        ids: number above all ids, where the vocabulary has gaps."""

    def __init__(self, root: Path, vocab_size: int, tokenizer: str = "", ids: int = 0) -> None:
        self._root = root
        self._vocab_size = vocab_size
        self._tokenizer = tokenizer
        self._dtype = "uint16" if max(vocab_size, ids) <= 2**16 else "uint32"
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
            for name, splits in sorted(self._channels.items())}

    def __enter__(self) -> "TokensWriter":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 trace: TracebackType | None) -> None:
        for writer in (w for splits in self._channels.values() for w in splits.values()):
            writer.close() if kind is None else writer.discard()
        if kind is None:
            index = {"dtype": self._dtype, "vocab_size": self._vocab_size, "channels": self.counts()}
            if self._tokenizer:
                index["tokenizer"] = self._tokenizer
            write_json(self._root / "index.json", index)


SPECIAL_FILE = "special.json"  # of a tokenize step: their ids
