"""What a spool holds already, so that a step that is started again writes nothing twice."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

from argosy.tracking.records import Record, read_from
from argosy.tracking.seen import SeenSteps

Key = tuple[str, ...]


class Known:
    """The (metric, step) pairs of a spool, and its params, tags, artifacts, models, results, header and status."""

    def __init__(self, spool: Path | None = None) -> None:
        self._steps: dict[str, SeenSteps] = {}
        self._values: dict[Key, object] = {}
        if spool is not None and spool.is_file():
            for _, record in read_from(spool, 0):
                if record is not None:
                    self._learn(record)

    def add_step(self, metric: str, step: int) -> bool:
        """Note a point; False when it was there."""
        steps = self._steps.get(metric)
        if steps is None:
            steps = self._steps[metric] = SeenSteps()
        return steps.add(step)

    def new(self, keys: Iterable[Key]) -> list[Key]:
        """Those of `keys` that it does not hold; notes them."""
        fresh = [key for key in keys if key not in self._values]
        self._values.update(dict.fromkeys(fresh))
        return fresh

    def changed(self, values: Mapping[Key, object]) -> list[Key]:
        """The keys whose value it does not hold; notes them."""
        fresh = [key for key, value in values.items() if self._values.get(key) != value]
        self._values.update({key: values[key] for key in fresh})
        return fresh

    def get(self, *key: str) -> object:
        """The value of a key, or None."""
        return self._values.get(key)

    def _learn(self, record: Record) -> None:
        kind = record["kind"]
        if kind == "metrics":
            for metric in record["values"]:
                self.add_step(metric, record["step"])
        elif kind in ("params", "tags"):
            self.changed({(kind, key): value for key, value in record["values"].items()})
        elif kind == "artifact":
            self.changed({(kind, record["path"], record["folder"]): record.get("digest", "")})
        elif kind == "model":
            self.new([(kind, record["name"])])
        elif kind == "model_metrics":
            where = kind, record["checkpoint"], record["dataset"]
            self.changed({(*where, key): repr(value) for key, value in record["values"].items()})
        elif kind == "model_tags":
            self.changed({(kind, record["checkpoint"], key): value for key, value in record["values"].items()})
        elif kind == "status":
            self.changed({(kind,): record["value"]})
        else:
            self.changed({(kind,): {key: value for key, value in record.items() if key != "time"}})
