"""Results of computations on disk: records by key that outlive a kill, and scores by checkpoint and query.

A score from the cache was computed in another batch, so its last digits may differ from what would be computed now (by
less than 1e-5 in float32): a step whose bytes count has no cache."""

import hashlib
import logging
import math
import os
import secrets
import shutil
import zlib
from array import array
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import IO

from argosy.model.infer.rows import Query, Score

VERSION = 3  # of the meaning of a score; raised by whoever changes it
_LOG = logging.getLogger(__name__)
_WEIGHTS = ("*.safetensors", "*.bin", "*config.json", "base.json", "*token*", "vocab*", "merges*", "*.model",
            "*.index.json")
_SUFFIX = ".scores"


class Records:
    """Texts by key in append-only files: a file a process, a line a record with its checksum.

    Processes do not disturb each other, and a line that is not whole is passed with a warning."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._file: IO[str] | None = None

    def read(self) -> Iterator[tuple[str, str]]:
        """Yield keys and texts of all processes."""
        broken = 0
        for path in sorted(self._directory.glob(f"*{_SUFFIX}")):
            with open(path, encoding="ascii", errors="replace") as lines:
                for line in lines:
                    record, _, checksum = line.rstrip("\n").rpartition(" ")
                    if record.isascii() and checksum == f"{zlib.crc32(record.encode()):08x}":
                        key, _, text = record.partition(" ")
                        yield key, text
                    else:
                        broken += 1
        if broken:
            _LOG.warning("%s: %d broken entries are ignored", self._directory, broken)

    def write(self, records: Mapping[str, str]) -> None:
        """Append records of ASCII, none with a line break, and no key with a space."""
        if not records:
            return
        if self._file is None:
            self._directory.mkdir(parents=True, exist_ok=True)
            name = f"{os.getpid()}-{secrets.token_hex(6)}{_SUFFIX}"
            self._file = (self._directory / name).open("x", encoding="ascii")
        lines = (f"{key} {text}" for key, text in records.items())
        self._file.write("".join(f"{line} {zlib.crc32(line.encode()):08x}\n" for line in lines))
        self._file.flush()


class ScoreCache:
    """Scores by query, in memory; with a directory, also those that other processes and earlier ones computed."""

    def __init__(self, directory: Path | None = None) -> None:
        self._records = Records(directory) if directory else None
        self._scores: dict[bytes, Score] = {}
        for key, text in self._records.read() if self._records else ():
            logprob, greedy, tokens = text.split(" ")
            self._scores[bytes.fromhex(key)] = Score(float(logprob), greedy == "1", int(tokens))

    def load(self, directory: Path) -> None:
        """Add the scores that another cache saved to a directory; nothing is written there."""
        self._scores |= ScoreCache(directory)._scores

    def save(self, directory: Path) -> None:
        """Write all scores so far to a directory, in place of what it has."""
        shutil.rmtree(directory, ignore_errors=True)
        Records(directory).write(_lines(self._scores))

    def get(self, query: Query) -> Score | None:
        """Look up the score of a query; None where there is none."""
        return self._scores.get(_key(query))

    def add(self, scores: Iterable[tuple[Query, Score]]) -> None:
        """Remember scores; those that are no numbers are not written."""
        new = {_key(query): score for query, score in scores}
        self._scores |= new
        if self._records:
            self._records.write(_lines(new))


def model_directory(cache: Path, checkpoint: Path, about: Iterable[str]) -> Path:
    """Name the directory below `cache` of a model's scores: by the bytes of its weights, tokenizer and configuration,
    and by how it is computed (`about`: dtype, attention, device)."""
    digest = hashlib.sha256(repr((VERSION, *about)).encode())
    for path in sorted({path for pattern in _WEIGHTS for path in checkpoint.glob(pattern) if path.is_file()}):
        with open(path, "rb") as file:
            digest.update(path.name.encode() + b"\0" + hashlib.file_digest(file, "sha256").digest())
    return cache / digest.hexdigest()[:32]


def _key(query: Query) -> bytes:
    numbers = array("q", (query.first, *query.tokens, -1, *query.targets))
    return hashlib.blake2b(numbers.tobytes(), digest_size=16).digest()


def _lines(scores: Mapping[bytes, Score]) -> dict[str, str]:
    return {key.hex(): f"{score.logprob!r} {int(score.greedy)} {score.tokens}"
            for key, score in scores.items() if math.isfinite(score.logprob)}
