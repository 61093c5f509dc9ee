"""The sender to MLflow: metrics, params, tags, artifacts, models, results and status of a batch.

In MLflow's SQL stores the key of a point is run, metric, step, timestamp and value (of a model's: model, run, metric,
step and timestamp), and a point that is there already is left out of a batch: one that is sent twice with its own
timestamp stands once. Params, tags, artifacts and status are set, and models found by their tags. So a batch that is
sent again changes nothing."""

import json
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from argosy.core.store.files import json_text
from argosy.core.tracking.mlflow.runs import LONGEST_TAG, Models, Runs
from argosy.core.tracking.mlflow.server import Server, metric_name, one_line
from argosy.core.tracking.ship import BATCH_VALUES, Batch, Unavailable
from argosy.core.tracking.spool import Owner, Record

if TYPE_CHECKING:
    from mlflow.entities import LoggedModel

T = TypeVar("T")
REFUSED = "refused.jsonl"
MODEL_VALUES = 100  # of a model in a request: MLflow 3.17 compares only as many with those that are there
PARAM_LENGTH, TAG_LENGTH = 6000, 8000
SETTINGS, SETTINGS_BYTES = 100, 500_000  # of params or tags in a request; MLflow takes 1 MB


class MlflowSender:
    """The Sender that speaks to MLflow (see argosy.core.tracking.ship.Sender).

    Args:
        server: opened when the first batch is sent."""

    def __init__(self, server: Server) -> None:
        self.uri = server.uri
        self._server = server
        self._begin()

    def _begin(self) -> None:
        """Know no ids: the runs and models that had them may be deleted."""
        self._runs = Runs(self._server)
        self._models = Models(self._server, self._runs)

    def send(self, spool: Path, owner: Owner, batch: Batch) -> str:
        """Send a batch; returns the id of its run. Raises Unavailable: send it again later."""
        with self._server.errors():
            try:
                run = self._runs.of(owner)
                _Request(self._server, self._runs, self._models, spool, owner, run).send(batch)
                return run
            except Exception:
                self._begin()
                raise


class _Request:
    """A batch of one spool on its way to one run."""

    def __init__(self, server: Server, runs: Runs, models: Models, spool: Path, owner: Owner, run: str) -> None:
        self._server, self._runs, self._models = server, runs, models
        self._spool, self._owner, self._run = spool, owner, run
        self._out = spool.parent.parent

    def send(self, batch: Batch) -> None:
        if batch.damaged:
            self._refused(f"{batch.damaged} damaged lines between bytes {batch.start} and {batch.end}", {})
        self._metrics(self._run, batch.of("metrics"))
        self._set("params", _values(batch.of("params")))
        self._set("tags", _values(batch.of("tags")))
        for record in batch.of("model"):
            self._register(record)
        for record in batch.of("model_metrics"):
            self._results(record)
        for record in batch.of("model_tags"):
            tags = {metric_name(key): value[:LONGEST_TAG] for key, value in record["values"].items()}
            self._server.client.set_logged_model_tags(self._models.evaluated(self._owner, record), tags)
        for record in batch.of("artifact"):
            self._artifact(record)
        self._status(batch.of("status"))

    def _metrics(self, run: str, records: Sequence[Record], model: str | None = None,
                 dataset: tuple[str, str] | None = None) -> None:
        from mlflow.entities import Metric

        name, digest = dataset or (None, None)
        points = [Metric(metric_name(key), value, record["time"], record["step"], model, name, digest)
                  for record in records for key, value in record["values"].items()]
        most = MODEL_VALUES if model else BATCH_VALUES
        for start in range(0, len(points), most):
            self._log(run, "metrics", points[start : start + most])

    def _set(self, kind: str, values: Mapping[str, str]) -> None:
        """Set `params` or `tags` of the run."""
        from mlflow.entities import Param, RunTag

        make, most = (Param, PARAM_LENGTH) if kind == "params" else (RunTag, TAG_LENGTH)
        for some in _by_size([make(metric_name(key), value[:most]) for key, value in values.items()]):
            self._log(self._run, kind, some)

    def _log(self, run: str, kind: str, items: Any) -> None:
        """Send `items` of a kind in one request; set those aside that MLflow does not accept, and send the others."""
        from mlflow.exceptions import MlflowException

        try:
            self._server.client.log_batch(run, **{kind: items})
        except MlflowException as error:
            if error.error_code != "INVALID_PARAMETER_VALUE":
                raise
            if self._server.client.get_run(run).info.lifecycle_stage != "active":
                raise Unavailable("a run was deleted there; another one takes its place") from error
            if len(items) == 1:
                self._refused(one_line(error), dict(items[0]))
                return
            middle = len(items) // 2
            self._log(run, kind, items[:middle])
            self._log(run, kind, items[middle:])

    def _register(self, record: Record) -> None:
        from mlflow.entities import LoggedModelOutput

        model = self._models.register(self._owner, record, self._out)
        outputs = self._server.client.get_run(self._run).outputs  # MLflow would note a model again at each call
        if model not in {output.model_id for output in (outputs.model_outputs if outputs else [])}:
            self._server.client.log_outputs(self._run, [LoggedModelOutput(model, record["step"])])

    def _results(self, record: Record) -> None:
        model = self._models.evaluated(self._owner, record)
        dataset: tuple[str, str] | None = None
        if record["dataset"]:
            dataset = record["dataset"][:500], (record["dataset_digest"] or "unknown")[:36]
        self._metrics(self._run, [{**record, "step": record["tokens"]}], model, dataset)
        base = record.get("base") or {}
        curve = self._runs.curves(self._owner, record["branch"], base.get("checkpoint", ""))
        own = [self._server.client.get_logged_model(model)]
        self._collect(curve, own, record["values"])
        for branch in self._runs.branches_from(self._owner, record["checkpoint"]):
            shared = [name for name in record["values"] if metric_name(name) in branch.data.metrics]
            self._collect(branch.info.run_id, own, shared)
        if base:  # a branch's curve begins with its base's results of the same names, whichever are sent first
            store = self._server.store_of(Path(base["path"]))
            self._collect(curve, self._server.models_of(self._owner.line, base["checkpoint"], store), record["values"])
        self._inputs(model, dataset)

    def _collect(self, curve: str, models: "Iterable[LoggedModel]", names: Iterable[str]) -> None:
        """Log the results of models to a curve, with the times that they have there. One that was computed again, by a
        run that MLflow does not know, and is the same as before, is the point of before."""
        from mlflow.entities import Metric

        wanted = {metric_name(name) for name in names}
        found = [m for model in models for m in model.metrics or () if m.key in wanted]
        points, last = [], dict[tuple[str, int], float]()
        for m in sorted(found, key=lambda m: m.timestamp):
            if last.get((m.key, m.step)) != m.value:
                points.append(Metric(m.key, m.value, m.timestamp, m.step))
            last[m.key, m.step] = m.value
        for start in range(0, len(points), BATCH_VALUES):
            self._log(curve, "metrics", points[start : start + BATCH_VALUES])

    def _inputs(self, model: str, dataset: tuple[str, str] | None) -> None:
        """Log what was evaluated on what; MLflow would note a model again at each call."""
        from mlflow.entities import Dataset, DatasetInput, LoggedModelInput

        inputs = self._server.client.get_run(self._run).inputs
        there = {each.model_id for each in (inputs.model_inputs if inputs else [])}
        datasets = [DatasetInput(Dataset(*dataset, "external", json.dumps({"name": dataset[0]})))] if dataset else []
        self._server.client.log_inputs(self._run, datasets, [] if model in there else [LoggedModelInput(model)])

    def _artifact(self, record: Record) -> None:
        path = self._out / record["path"]
        if not path.exists():
            self._refused("the artifact is not there any more", record)
            return
        log = self._server.client.log_artifacts if path.is_dir() else self._server.client.log_artifact
        log(self._run, str(path), record["folder"] or None)

    def _status(self, records: Sequence[Record]) -> None:
        if records and (status := records[-1]["value"]) == "RUNNING":
            self._server.client.update_run(self._run, status=status)
        elif records:
            self._server.client.set_terminated(self._run, status, records[-1]["time"])

    def _refused(self, reason: str, item: dict[str, Any]) -> None:
        """Keep an item that MLflow does not accept in `refused.jsonl` beside the spool, and say so the first time."""
        path = self._spool.with_name(REFUSED)
        if not path.exists():
            print(f"tracking: {path} keeps what MLflow does not accept, first: {reason}", file=sys.stderr)
        with open(path, "a", encoding="utf-8") as file:
            file.write(json_text({"reason": reason, "item": item}, default=str) + "\n")


def _values(records: Sequence[Record]) -> dict[str, str]:
    """The last value of each param or tag."""
    return {key: value for record in records for key, value in record["values"].items()}


def _by_size(settings: Sequence[T]) -> Iterator[list[T]]:
    """Split params or tags into requests of a size that MLflow takes."""
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
