"""Which steps of a metric were logged: exact, and small for the steps of a training run."""

from __future__ import annotations

from bisect import bisect_right


class SeenSteps:
    """A set of integers that keeps increasing ones as (first, last, stride) runs.

    A metric that is logged every n steps costs one run however long the training is, so a million steps of a
    thousand metrics stay some hundred KB. Steps out of order go to an ordinary set.
    """

    __slots__ = ("_firsts", "_lasts", "_others", "_strides")

    def __init__(self) -> None:
        self._firsts: list[int] = []
        self._lasts: list[int] = []
        self._strides: list[int] = []  # 0: the run has one step, so its stride is still open
        self._others: set[int] = set()

    def add(self, step: int) -> bool:
        """Add `step`; False when it was there."""
        lasts = self._lasts
        if lasts and step <= lasts[-1]:
            return self._add_earlier(step)
        if lasts:
            stride = self._strides[-1]
            if stride == 0:
                self._strides[-1] = stride = step - lasts[-1]
            if step - lasts[-1] == stride:
                lasts[-1] = step
                return True
        self._firsts.append(step)
        lasts.append(step)
        self._strides.append(0)
        return True

    def _add_earlier(self, step: int) -> bool:
        if step in self:
            return False
        self._others.add(step)
        return True

    def __contains__(self, step: int) -> bool:
        run = bisect_right(self._firsts, step) - 1
        if run >= 0 and step <= self._lasts[run]:
            stride = self._strides[run]
            if stride == 0 or (step - self._firsts[run]) % stride == 0:
                return True
        return step in self._others
