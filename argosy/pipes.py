"""What is printed into a pipe whose reader has gone: `argosy plan | head`."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def reader_may_leave() -> Iterator[None]:
    """Exit with 1 and without a traceback where stdout is a pipe that nobody reads any more.

    Also what is still in stdout's buffer at the end counts: the interpreter's own flush at exit would complain.
    """
    try:
        try:
            yield
        finally:
            sys.stdout.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise SystemExit(1) from None
