"""Other items than the one that is asked: what few-shot shots and distractors are taken from."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from typing import TypeVar

from evals.items import AnyItem

T = TypeVar("T")


class Pool:
    """The items of a task, and those that shots are taken from (by default the same), with what is found among them.

    What a variant draws must not depend on the order of items: sort what `items` has before drawing from it.
    """

    def __init__(self, items: Iterable[AnyItem] = (), shots: Iterable[AnyItem] = ()) -> None:
        self.items = tuple(items)
        self.shots = tuple(shots) or self.items
        self._found: dict[Hashable, object] = {}

    def once(self, key: Hashable, make: Callable[[], T]) -> T:
        """What `make` gives, made once for each key."""
        if key not in self._found:
            self._found[key] = make()
        return self._found[key]  # type: ignore[return-value]


EMPTY = Pool()
