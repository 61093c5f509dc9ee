"""Appending lines to a file so that a crash, a full disk or a short write never joins two of them."""

from __future__ import annotations

import os
import warnings
from collections import deque
from pathlib import Path

PENDING_BYTES = 16 * 2**20  # of lines that a failing disk did not take, tried again with the next ones


class Appender:
    """Appends whole lines, each with one `write`. A failing disk costs one warning, never an exception.

    There is one writer at a time (the step's lease). A last line without its newline, which a killed writer or a
    full disk leaves, is cut off when the file is opened.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file: int | None = None
        self._pending: deque[bytes] = deque()
        self._pending_bytes = 0
        self._warned: set[str] = set()
        if path.is_file():
            self._open()

    def append(self, line: bytes) -> None:
        """Write one line (newline included), after those that a failing disk refused before."""
        self._pending.append(line)
        self._pending_bytes += len(line)
        try:
            if self._file is None:
                self._open()
            while self._pending:
                self._write(self._pending[0])
                self._pending_bytes -= len(self._pending.popleft())
        except OSError as error:
            self.warn(f"{self._path} cannot be written ({error.strerror}): what is logged waits in memory")
            while self._pending_bytes > PENDING_BYTES:
                self._pending_bytes -= len(self._pending.popleft())
                self.warn(f"{self._path} still cannot be written: the oldest of what was logged is dropped")

    def warn(self, message: str) -> None:
        """Warn once for each message."""
        if message not in self._warned:
            self._warned.add(message)
            warnings.warn(message, RuntimeWarning, stacklevel=4)

    def close(self) -> None:
        """Flush to the disk and close; a later append opens the file again."""
        if self._file is not None:
            try:
                os.fsync(self._file)
                os.close(self._file)
            except OSError as error:
                self.warn(f"{self._path} cannot be flushed ({error.strerror})")
            self._file = None

    def _open(self) -> None:
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            self._file = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o644)
            cut_torn_line(self._file)
        except OSError as error:
            if self._pending:
                raise
            self.warn(f"{self._path} cannot be written ({error.strerror}): what is logged waits in memory")

    def _write(self, line: bytes) -> None:
        assert self._file is not None
        start = os.fstat(self._file).st_size
        written = os.write(self._file, line)
        if written < len(line):  # the disk is nearly full: take the part back, so that the next line stays whole
            os.ftruncate(self._file, start)
            raise OSError(28, "no space left for a whole record")


def cut_torn_line(file: int) -> None:
    """Cut what follows the last newline of an open file."""
    size = os.fstat(file).st_size
    end = size
    while end > 0:
        start = max(0, end - 65536)
        newline = os.pread(file, end - start, start).rfind(b"\n")
        if newline >= 0:
            end = start + newline + 1
            break
        end = start
    if end < size:
        os.ftruncate(file, end)
