"""What has been computed of an evaluation, batch by batch, so that one that is killed goes on where it was."""

from __future__ import annotations

import hashlib
import json
import logging
import os
import secrets
from pathlib import Path
from typing import IO, Any

_LOG = logging.getLogger(__name__)


class Journal:
    """Append-only files below a directory: a line a batch, `{"key", "found"}`.

    Keys are digests of all that a batch consists of, so what is read is what would be computed, to the last digit.
    Each process writes a file of its own; a line that a kill cut off is passed.
    """

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._known: dict[str, Any] = {}
        self._file: IO[str] | None = None
        broken = 0
        for path in sorted(directory.glob("part-*.jsonl")):
            with open(path, encoding="utf-8", errors="replace") as lines:
                for line in lines:
                    try:
                        record = json.loads(line)
                        self._known[record["key"]] = record["found"]
                    except (ValueError, KeyError, TypeError):
                        broken += 1
        if broken:
            _LOG.warning("%s: %d batches were cut off and are computed again", directory, broken)

    def __len__(self) -> int:
        return len(self._known)

    def get(self, key: str) -> Any:
        """What was found of a batch, or None."""
        return self._known.get(key)

    def put(self, key: str, found: Any) -> None:
        """Remember it, also over a kill from here on."""
        if self._file is None:
            self._directory.mkdir(parents=True, exist_ok=True)
            name = f"part-{os.getpid()}-{secrets.token_hex(4)}.jsonl"
            self._file = (self._directory / name).open("x", encoding="utf-8")
        self._file.write(json.dumps({"key": key, "found": found}) + "\n")
        self._file.flush()


def key_of(kind: str, task: Any) -> str:
    """The digest of a batch."""
    return hashlib.sha256(repr((kind, task)).encode()).hexdigest()[:32]
