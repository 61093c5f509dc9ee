"""Scores that are known already, by the checkpoint and the request.

In memory for all requests of one model; on disk for those who want it. A score from the disk was computed in another
batch, so its last digits may differ from what would be computed now (by less than 1e-5 in float32): a step whose bytes
count has no cache.
"""

from __future__ import annotations

import hashlib
import logging
import math
import os
import secrets
import shutil
import zlib
from array import array
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import IO

from argosy.evaluation.rows import Wanted
from argosy.evaluation.score import Score

VERSION = 3  # of what a score is; raised by whoever changes it
_LOG = logging.getLogger(__name__)
_WEIGHTS = ("*.safetensors", "*.bin", "config.json", "*token*", "vocab*", "merges*", "*.model", "*.index.json")


class Known:
    """Scores by request; with a directory, also those that other processes and earlier ones found of this model.

    Files are append-only, a file a process, a line a score with a checksum: processes do not disturb each other, and
    a line that is not whole is passed with a warning.
    """

    def __init__(self, directory: Path | None = None) -> None:
        self._directory = directory
        self._scores: dict[bytes, Score] = {}
        self._file: IO[str] | None = None
        self.read = 0  # scores that were on the disk
        broken = 0
        for path in sorted(directory.glob("*.scores")) if directory else ():
            with open(path, encoding="ascii", errors="replace") as lines:
                for line in lines:
                    if (entry := _parse(line)) is None:
                        broken += 1
                    else:
                        self._scores[entry[0]] = entry[1]
        self.read = len(self._scores)
        if broken:
            _LOG.warning("cache %s: %d broken entries are ignored", directory, broken)

    def take(self, directory: Path) -> None:
        """Know what another one `kept` in a directory; nothing is written there."""
        self._scores |= Known(directory)._scores

    def keep(self, directory: Path) -> None:
        """Write all scores so far to a directory, in place of what it has."""
        shutil.rmtree(directory, ignore_errors=True)
        Known(directory)._write(self._scores)

    def get(self, wanted: Wanted) -> Score | None:
        """The score of a request, or None."""
        return self._scores.get(_key(wanted))

    def add(self, found: Iterable[tuple[Wanted, Score]]) -> None:
        """Remember scores; those that are no numbers are not written."""
        new = {_key(wanted): score for wanted, score in found}
        self._scores |= new
        self._write(new)

    def _write(self, scores: Mapping[bytes, Score]) -> None:
        lines = []
        for key, score in scores.items():
            if self._directory is not None and math.isfinite(score.logprob):
                text = f"{key.hex()} {score.logprob!r} {int(score.greedy)} {score.tokens}"
                lines.append(f"{text} {zlib.crc32(text.encode()):08x}\n")
        if lines and self._directory is not None:
            if self._file is None:
                self._directory.mkdir(parents=True, exist_ok=True)
                name = f"{os.getpid()}-{secrets.token_hex(6)}.scores"
                self._file = (self._directory / name).open("x", encoding="ascii")
            self._file.write("".join(lines))
            self._file.flush()


def model_directory(cache: Path, checkpoint: Path, about: Iterable[str]) -> Path:
    """Where below `cache` the scores of a model are: by the bytes of its weights, tokenizer and configuration, and by
    how it is computed (`about`: dtype, attention, device)."""
    digest = hashlib.sha256(repr((VERSION, *about)).encode())
    for path in sorted({found for pattern in _WEIGHTS for found in checkpoint.glob(pattern) if found.is_file()}):
        with open(path, "rb") as file:
            digest.update(path.name.encode() + b"\0" + hashlib.file_digest(file, "sha256").digest())
    return cache / digest.hexdigest()[:32]


def _key(wanted: Wanted) -> bytes:
    numbers = array("q", (wanted.first, *wanted.tokens, -1, *wanted.targets))
    return hashlib.blake2b(numbers.tobytes(), digest_size=16).digest()


def _parse(line: str) -> tuple[bytes, Score] | None:
    text, _, checksum = line.rstrip("\n").rpartition(" ")
    try:
        if int(checksum, 16) != zlib.crc32(text.encode()):
            return None
        key, logprob, greedy, tokens = text.split(" ")
        return bytes.fromhex(key), Score(float(logprob), greedy == "1", int(tokens))
    except (ValueError, UnicodeEncodeError):
        return None
