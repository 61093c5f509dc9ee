"""Open the user's files: which formats there are, how a path becomes a list of files, how bytes become lines."""

from __future__ import annotations

import gzip
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, cast

from argosy.errors import InputError

TEXT = (".txt", ".md")
JSONL = (".jsonl", ".jsonl.gz", ".jsonl.zst")
PARQUET = (".parquet",)
FORMATS = TEXT + JSONL + PARQUET


def format_of(path: Path) -> str:
    """The suffix from FORMATS that the file's name ends in, or ""."""
    return next((suffix for suffix in FORMATS if path.name.lower().endswith(suffix)), "")


def input_files(path: Path) -> tuple[list[Path], list[Path]]:
    """(readable files, files of unknown formats) at `path`, sorted; hidden ones are left out.

    Raises:
        InputError: it does not exist, is empty, or is of an unknown format.
    """
    allowed = f"allowed: {', '.join(FORMATS)}, or a directory of them"
    if not path.exists():
        raise InputError(f"input {path} does not exist; {allowed}")
    if path.is_file():
        if not format_of(path):
            raise InputError(f"input {path} is of an unknown format; {allowed}")
        if path.stat().st_size == 0:
            raise InputError(f"input {path} is empty (0 bytes)")
        return [path], []
    hidden = (".", "_")
    found = sorted(
        p for p in path.rglob("*") if p.is_file() and not any(s.startswith(hidden) for s in p.relative_to(path).parts)
    )
    known = [p for p in found if format_of(p)]
    if not known:
        raise InputError(f"input {path} is a directory without a file to read; {allowed}")
    return known, [p for p in found if not format_of(p)]


@contextmanager
def open_binary(path: Path) -> Iterator[IO[bytes]]:
    """The file's bytes, decompressed if it is .gz or .zst."""
    if path.suffix.lower() == ".gz":
        with gzip.open(path, "rb") as file:
            yield cast("IO[bytes]", file)
    elif path.suffix.lower() == ".zst":
        import io

        import pyarrow as pa  # type: ignore[import-untyped]

        with pa.OSFile(str(path)) as raw, pa.CompressedInputStream(raw, "zstd") as stream:
            yield cast("IO[bytes]", io.BufferedReader(stream))
    else:
        with open(path, "rb") as file:
            yield file
