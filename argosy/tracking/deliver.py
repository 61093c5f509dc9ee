"""Requests to one run: split to MLflow's limits, without what is there already, and around what it does not accept."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from argosy.tracking.batches import BATCH_VALUES
from argosy.tracking.names import metric_name
from argosy.tracking.refused import Refused
from argosy.tracking.server import Server, one_line
from argosy.tracking.shipper import Unavailable

if TYPE_CHECKING:
    from mlflow.entities import Metric

T = TypeVar("T")
PARAM_LENGTH, TAG_LENGTH = 6000, 8000
SETTINGS, SETTINGS_BYTES = 100, 500_000  # of params or tags in a request; MLflow takes 1 MB


class Delivery:
    """Logs metrics, params and tags to runs of one server."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._history: dict[tuple[str, str], set[tuple[int, int]]] = {}  # of runs that a doubtful batch is about

    def forget(self) -> None:
        """Ask again what is there: a request that failed may have arrived."""
        self._history.clear()

    def metrics(self, run: str, metrics: Sequence[Metric], refused: Refused, *, doubtful: bool) -> None:
        """Log points; with `doubtful`, those that the run does not have."""
        if doubtful:
            metrics = [metric for metric in metrics if not self._is_there(run, metric)]
        else:
            self._history.clear()
        for start in range(0, len(metrics), BATCH_VALUES):
            self._log(run, metrics[start : start + BATCH_VALUES], refused, lambda part: {"metrics": part})

    def params(self, run: str, values: Mapping[str, str], refused: Refused) -> None:
        """Log params; sending one again changes nothing."""
        from mlflow.entities import Param

        params = [Param(metric_name(key), value[:PARAM_LENGTH]) for key, value in values.items()]
        for some in _by_size(params):
            self._log(run, some, refused, lambda part: {"params": part})

    def tags(self, run: str, values: Mapping[str, str], refused: Refused) -> None:
        """Set tags."""
        from mlflow.entities import RunTag

        tags = [RunTag(metric_name(key), value[:TAG_LENGTH]) for key, value in values.items()]
        for some in _by_size(tags):
            self._log(run, some, refused, lambda part: {"tags": part})

    def _is_there(self, run: str, metric: Metric) -> bool:
        """Whether the run has this point: the time of a record is part of its identity."""
        key = (run, metric.key)
        if key not in self._history:
            points = self._server.client.get_metric_history(run, metric.key)
            self._history[key] = {(point.step, point.timestamp) for point in points}
        return (metric.step, metric.timestamp) in self._history[key]

    def _log(self, run: str, items: Sequence[T], refused: Refused, named: Callable[[Sequence[T]], Any]) -> None:
        """Send `items` in one request; those that MLflow does not accept are set aside, the others still go."""
        from mlflow.exceptions import MlflowException

        try:
            self._server.client.log_batch(run, **named(items))
        except MlflowException as error:
            if error.error_code != "INVALID_PARAMETER_VALUE":
                raise
            if self._server.client.get_run(run).info.lifecycle_stage != "active":
                raise Unavailable("a run was deleted there; another one takes its place") from error
            if len(items) == 1:
                refused.note(one_line(error), dict(items[0]))  # type: ignore[call-overload]
                return
            middle = len(items) // 2
            self._log(run, items[:middle], refused, named)
            self._log(run, items[middle:], refused, named)


def _by_size(settings: Sequence[T]) -> Iterator[list[T]]:
    """Split params or tags into what one request takes."""
    part: list[T] = []
    size = 0
    for setting in settings:
        own = len(json.dumps(dict(setting)))  # type: ignore[call-overload]
        if part and (len(part) == SETTINGS or size + own > SETTINGS_BYTES):
            yield part
            part, size = [], 0
        part.append(setting)
        size += own
    if part:
        yield part
