"""Many transfers at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import FIRST_EXCEPTION, Future, ThreadPoolExecutor, wait
from typing import TypeVar

T = TypeVar("T")
SMALL = 2**20
_WORKERS, _LARGE = 32, 2  # at a time: files up to SMALL; larger ones, whose pieces take memory


def each(call: Callable[[T], object], items: Iterable[T], size: Callable[[T], int] = lambda item: 0) -> int:
    """`call` every item, large ones first; returns how many there were. The first error ends it."""
    todo = sorted(items, key=size, reverse=True)
    if len(todo) <= 1:
        for item in todo:
            call(item)
        return len(todo)
    small, large = ThreadPoolExecutor(_WORKERS, "transfer"), ThreadPoolExecutor(_LARGE, "transfer-large")
    try:
        started: list[Future[object]] = [
            (large if size(item) > SMALL else small).submit(call, item) for item in todo
        ]
        for future in wait(started, return_when=FIRST_EXCEPTION).done:
            future.result()
    finally:
        for pool in (small, large):
            pool.shutdown(cancel_futures=True)
    return len(todo)
