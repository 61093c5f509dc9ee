"""Files that are packed with zstd, read as a stream."""

import io
from typing import IO, Any, cast

from argosy.core.errors import InputError

MOST_WINDOW = 2**27  # bytes, as zstd itself takes without --long; pyarrow takes no more
_MAGIC = b"\x28\xb5\x2f\xfd"


def open_zstd(raw: IO[bytes], name: str, block: int) -> IO[bytes]:
    """Open the unpacked bytes of a stream. `name`: as errors call it. `block`: bytes that are read at once.

    Raises InputError, now or while it is read: a frame needs a window of more than MOST_WINDOW bytes."""
    import pyarrow as pa

    check_window(raw, name)
    return cast("IO[bytes]", io.BufferedReader(_Unpacked(pa.CompressedInputStream(pa.PythonFile(raw, "r"), "zstd"),
                                                         name), block))


def check_window(raw: IO[bytes], name: str) -> None:
    """Check the window that the first frame asks for (RFC 8878, 3.1.1.1.2). Raises InputError: it is too long."""
    head = raw.read(6)
    raw.seek(0)
    if len(head) < 6 or not head.startswith(_MAGIC) or head[4] & 0x20:  # a single segment has none
        return
    base = 1 << (10 + (head[5] >> 3))
    if (needed := base + (base >> 3) * (head[5] & 7)) > MOST_WINDOW:
        raise _too_long(name, f"of {needed // 2**20} MiB")


def _too_long(name: str, which: str) -> InputError:
    return InputError(f"{name} was packed with a window {which} (zstd --long), which takes as much memory to read; "
                      f"allowed: {MOST_WINDOW // 2**20} MiB. Pack it anew: zstd -dc --long=31 FILE | zstd -o NEW.zst")


class _Unpacked(io.RawIOBase):
    """A stream of pyarrow that tells a long window, which is sound, from damage."""

    def __init__(self, stream: Any, name: str) -> None:
        self._stream, self._name = stream, name

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        try:
            part = self._stream.read(len(buffer))
        except OSError as error:
            if "too much memory" in str(error):  # of a frame that is not the first
                raise _too_long(self._name, f"of more than {MOST_WINDOW // 2**20} MiB") from None
            raise
        buffer[: len(part)] = part
        return len(part)

    def close(self) -> None:
        self._stream.close()
        super().close()
