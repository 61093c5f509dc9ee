"""Batches to MLflow: metrics, params, tags, artifacts, models, results and status, each record once."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from argosy.tracking.batches import Batch, Owner
from argosy.tracking.deliver import Delivery
from argosy.tracking.models import LONGEST_TAG, Models
from argosy.tracking.names import metric_name
from argosy.tracking.records import Record
from argosy.tracking.refused import Refused
from argosy.tracking.reused import reused_tags
from argosy.tracking.runs import Runs
from argosy.tracking.server import Server

if TYPE_CHECKING:
    from mlflow.entities import Metric


class MlflowSender:
    """The Sender that speaks to MLflow (see argosy.tracking.shipper.Sender).

    Args:
        server: opened when the first batch is sent.
    """

    def __init__(self, server: Server) -> None:
        self.uri = server.uri
        self._server = server
        self._runs = Runs(server)
        self._models = Models(server, self._runs)
        self._delivery = Delivery(server)

    def open(self, owner: Owner) -> bool:
        """See to it that `owner` has a run; whether another process made it. Raises Unavailable."""
        with self._server.errors():
            return self._runs.of(owner) not in self._runs.created

    def end(self, owner: Owner, status: str) -> None:
        """Set the status of the run of `owner`; raises Unavailable."""
        with self._server.errors():
            self._server.client.set_terminated(self._runs.of(owner), status)

    def send(self, spool: Path, owner: Owner, batch: Batch, *, doubtful: bool) -> str:
        """Send a batch; returns the id of its run.

        Raises:
            Unavailable: the server; ask again later with `doubtful`.
        """
        with self._server.errors():
            try:
                return self._send(spool, owner, batch, doubtful)
            except Exception:
                for cache in (self._runs, self._models, self._delivery):  # what they know may be deleted there
                    cache.forget()
                raise

    def _send(self, spool: Path, owner: Owner, batch: Batch, doubtful: bool) -> str:
        run = self._runs.of(owner)
        refused = Refused(spool)
        if batch.damaged:
            refused.note(f"{batch.damaged} damaged lines between bytes {batch.start} and {batch.end}", {})
        self._delivery.metrics(run, _metrics(batch.of("metrics")), refused, doubtful=doubtful)
        self._delivery.params(run, _values(batch.of("params")), refused)
        self._delivery.tags(run, _values(batch.of("tags")), refused)
        out = spool.parent.parent
        for record in batch.of("model"):
            self._register(run, owner, record, out)
        for record in batch.of("model_metrics"):
            self._results(run, owner, record, refused, doubtful)
        for record in batch.of("model_tags"):
            self._server.client.set_logged_model_tags(self._models.evaluated(owner, record), _tags(record))
        for record in batch.of("artifact"):
            self._artifact(run, record, out, refused)
        for record in batch.of("reused"):
            tags = reused_tags(record["nodes"], out.parent.parent, owner.pipeline, self.uri)
            self._delivery.tags(run, tags, refused)
        self._status(run, batch.of("status"))
        return run

    def _register(self, run: str, owner: Owner, record: Record, out: Path) -> None:
        from mlflow.entities import LoggedModelOutput

        model = self._models.register(owner, record, out)
        outputs = self._server.client.get_run(run).outputs
        if model not in {output.model_id for output in (outputs.model_outputs if outputs else [])}:
            self._server.client.log_outputs(run, [LoggedModelOutput(model, record["step"])])

    def _results(self, run: str, owner: Owner, record: Record, refused: Refused, doubtful: bool) -> None:
        model = self._models.evaluated(owner, record)
        dataset: tuple[str, str] | None = None
        if record["dataset"]:
            dataset = record["dataset"][:500], (record["dataset_digest"] or "unknown")[:36]
        at_tokens = [{**record, "step": record["tokens"]}]
        self._delivery.metrics(run, _metrics(at_tokens, model, dataset), refused, doubtful=doubtful)
        curves = self._runs.curves(owner, record["branch"])
        self._delivery.metrics(curves, _metrics(at_tokens), refused, doubtful=doubtful)
        self._inputs(run, model, dataset)

    def _inputs(self, run: str, model: str, dataset: tuple[str, str] | None) -> None:
        """Say what was evaluated on what; MLflow would note a model again at each call."""
        from mlflow.entities import Dataset, DatasetInput, LoggedModelInput

        inputs = self._server.client.get_run(run).inputs
        known = {there.model_id for there in (inputs.model_inputs if inputs else [])}
        datasets = [DatasetInput(Dataset(*dataset, "external", json.dumps({"name": dataset[0]})))] if dataset else []
        self._server.client.log_inputs(run, datasets, [] if model in known else [LoggedModelInput(model)])

    def _artifact(self, run: str, record: Record, out: Path, refused: Refused) -> None:
        path = out / record["path"]
        if not path.exists():
            refused.note("the artifact is not there any more", record)
            return
        log = self._server.client.log_artifacts if path.is_dir() else self._server.client.log_artifact
        log(run, str(path), record["folder"] or None)

    def _status(self, run: str, records: Sequence[Record]) -> None:
        if not records:
            return
        status, time_ms = records[-1]["value"], records[-1]["time"]
        if status == "RUNNING":
            self._server.client.update_run(run, status=status)
        else:
            self._server.client.set_terminated(run, status, time_ms)


def _metrics(
    records: Sequence[Record], model: str | None = None, dataset: tuple[str, str] | None = None
) -> list[Metric]:
    from mlflow.entities import Metric

    name, digest = dataset or (None, None)
    return [
        Metric(metric_name(key), value, record["time"], record["step"], model, name, digest)
        for record in records
        for key, value in record["values"].items()
    ]


def _tags(record: Record) -> dict[str, str]:
    return {metric_name(key): value[:LONGEST_TAG] for key, value in record["values"].items()}


def _values(records: Sequence[Record]) -> dict[str, str]:
    """The last value of each param or tag."""
    return {key: value for record in records for key, value in record["values"].items()}
