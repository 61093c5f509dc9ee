"""Points that a spool holds twice: two processes wrote it when one took over from another that was not dead yet."""

from __future__ import annotations

from collections import OrderedDict
from pathlib import Path

from argosy.tracking.batches import Batch
from argosy.tracking.records import Record, read_from
from argosy.tracking.seen import SeenSteps

SPOOLS = 64  # whose points are in memory; another's are read again


class Repeats:
    """Drops from batches each (metric, step) and each result of a model that came earlier in their spool; the first
    value counts.

    A spool's batches are to come in order; after one that came out of order (a batch that is sent again, another
    shipper's turn in between), what was before it is read again.
    """

    def __init__(self) -> None:
        self._spools: OrderedDict[Path, tuple[int, dict[str, SeenSteps]]] = OrderedDict()

    def drop(self, spool: Path, batch: Batch) -> Batch:
        """The batch without the points that the spool has before them."""
        at, seen = self._spools.pop(spool, (0, {}))
        if at > batch.start:
            at, seen = 0, {}
        for _, record in read_from(spool, at, batch.start):
            if record is not None:
                _fresh(record, seen)
        records = [fresh for record in batch.records if (fresh := _fresh(record, seen)) is not None]
        self._spools[spool] = (batch.end, seen)
        if len(self._spools) > SPOOLS:
            self._spools.popitem(last=False)
        return Batch(batch.start, batch.end, records, batch.damaged)


def _fresh(record: Record, seen: dict[str, SeenSteps]) -> Record | None:
    """The record with the values that are not in `seen`, which learns them; None if all are."""
    if record["kind"] == "metrics":
        about, step = "", record["step"]
    elif record["kind"] == "model_metrics":
        about, step = f"{record['checkpoint']}\0{record['dataset']}\0", record["tokens"]
    else:
        return record
    values = {k: v for k, v in record["values"].items() if seen.setdefault(about + k, SeenSteps()).add(step)}
    return {**record, "values": values} if values else None
