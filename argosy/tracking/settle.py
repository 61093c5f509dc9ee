"""One run where several processes made one: where stores are mirrors of a bucket, no lock is seen by all creators.

Whoever makes a run waits a while, looks again, and keeps the one that is marked, else the one with the lowest id; it
marks that, and looks once more, since a slow server may have let another process mark another. It removes its own where
that is not the one. Who comes later takes the marked one.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

T = TypeVar("T")
SETTLED = "argosy.settled"  # tag of the one that all have agreed on
WAIT_S = 3.0  # longer than it takes from looking to having made one


@dataclass(frozen=True)
class Settling(Generic[T]):
    """What is asked of the server about the things that stand for the same.

    Attributes:
        search: all of them.
        key: the id of one.
        is_marked: whether it has the tag.
        mark: sets it.
        remove: deletes one that this process made.
    """

    search: Callable[[], Sequence[T]]
    key: Callable[[T], str]
    is_marked: Callable[[T], bool]
    mark: Callable[[T], object]
    remove: Callable[[T], object]

    def settle(self, given: T, made: bool, pause: Callable[[float], None] = time.sleep) -> T:
        """The one that all keep.

        Args:
            given: what this process found or made.
            made: whether it made it just now.
        """
        if self.is_marked(given):
            return given
        pause(WAIT_S)
        kept, marked = self._choose([given])
        if not marked:
            self._mark(kept)
            pause(WAIT_S)
            kept, _ = self._choose([kept])
        if made and self.key(kept) != self.key(given):
            self.remove(given)
        return kept

    def _choose(self, known: list[T]) -> tuple[T, bool]:
        """The lowest of the marked ones, else of all; and whether it is marked."""
        found = {self.key(each): each for each in (*known, *self.search())}
        marked = [key for key, each in found.items() if self.is_marked(each)]
        return found[min(marked or found)], bool(marked)

    def _mark(self, kept: T) -> None:
        """Mark it, unless another process does so at this moment: the server's database refuses one of the two."""
        try:
            self.mark(kept)
        except Exception:
            if not any(self.is_marked(each) for each in self.search() if self.key(each) == self.key(kept)):
                raise


def best(found: Sequence[T], is_marked: Callable[[T], bool]) -> T | None:
    """The marked one, else the first; None for none."""
    return next((each for each in found if is_marked(each)), found[0] if found else None)
