"""Points that a spool holds twice: two processes wrote it when one took over from another that was not dead yet."""

from __future__ import annotations

from collections import OrderedDict
from pathlib import Path

from argosy.tracking.batches import Batch
from argosy.tracking.records import Record, read_from
from argosy.tracking.seen import SeenSteps

SPOOLS = 64  # whose points are in memory; another's are read again


class _Seen:
    """The points of a spool so far, and the last value of each result."""

    def __init__(self) -> None:
        self._steps: dict[str, SeenSteps] = {}
        self._results: dict[tuple[object, ...], str] = {}

    def point(self, record: Record, key: str, value: float) -> bool:
        """Whether a metric has no value at the record's step yet; notes it."""
        return self._steps.setdefault(key, SeenSteps()).add(record["step"])

    def result(self, record: Record, key: str, value: float) -> bool:
        """Whether a result of a model is another than before; notes it."""
        about = record["checkpoint"], record["dataset"], record["tokens"], key
        changed = self._results.get(about) != repr(value)
        self._results[about] = repr(value)
        return changed


class Repeats:
    """Drops from batches each (metric, step) that came earlier in their spool (the first value counts), and each result
    of a model that is equal to the one before it (an evaluation that is tried again may find another).

    A spool's batches are to come in order; after one that came out of order (a batch that is sent again, another
    shipper's turn in between), what was before it is read again.
    """

    def __init__(self) -> None:
        self._spools: OrderedDict[Path, tuple[int, _Seen]] = OrderedDict()

    def drop(self, spool: Path, batch: Batch) -> Batch:
        """The batch without the points that the spool has before them."""
        at, seen = self._spools.pop(spool, (0, _Seen()))
        if at > batch.start:
            at, seen = 0, _Seen()
        for _, record in read_from(spool, at, batch.start):
            if record is not None:
                _fresh(record, seen)
        records = [fresh for record in batch.records if (fresh := _fresh(record, seen)) is not None]
        self._spools[spool] = (batch.end, seen)
        if len(self._spools) > SPOOLS:
            self._spools.popitem(last=False)
        return Batch(batch.start, batch.end, records, batch.damaged)


def _fresh(record: Record, seen: _Seen) -> Record | None:
    """The record with the values that are not in `seen`, which learns them; None if all are."""
    if record["kind"] == "metrics":
        is_new = seen.point
    elif record["kind"] == "model_metrics":
        is_new = seen.result
    else:
        return record
    values = {key: value for key, value in record["values"].items() if is_new(record, key, value)}
    return {**record, "values": values} if values else None
