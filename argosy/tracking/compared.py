"""A comparison as a run of MLflow: metrics, tables that its own interface shows, and the page as an artifact."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from argosy.tracking.batches import BATCH_VALUES
from argosy.tracking.names import metric_name
from argosy.tracking.result import is_web
from argosy.tracking.runs import Runs
from argosy.tracking.server import Server, without_password

COMPARISON = "argosy.comparison"
PAGE, RECORD = "compare.html", "comparison.json"
MOST_LENGTH = 6000  # characters of a param


@dataclass(frozen=True)
class Logged:
    """Attributes:
    line: the model line of the first that was compared.
    tables: by file name, columns; as MLflow's log_table writes them.
    models: ids of LoggedModels that were compared.
    """

    line: str
    name: str
    metrics: Mapping[str, float]
    params: Mapping[str, str]
    tables: Mapping[str, Mapping[str, Sequence[object]]]
    models: Sequence[str]
    page: str
    record: Mapping[str, Any]
    summary: str = ""
    tags: Mapping[str, str] = field(default_factory=dict)

    @property
    def experiment(self) -> str:
        """One of its own: in the line's, its metrics would be among those of checkpoints in every chart."""
        return f"{self.line} comparisons"


def log_comparison(server: Server, found: Logged) -> str:
    """Log it as a new run, and say where it is. Raises Unavailable where the server does not answer, or refuses it."""
    import time

    from mlflow.entities import LoggedModelInput, Metric, Param, RunTag

    with server.errors():
        client, now = server.client, int(time.time() * 1000)
        experiment = Runs(server).experiment(found.experiment)
        run = client.create_run(experiment, run_name=found.name, tags={COMPARISON: "true", **found.tags})
        run_id = run.info.run_id
        metrics = [Metric(metric_name(name), value, now, 0) for name, value in found.metrics.items()]
        for start in range(0, len(metrics), BATCH_VALUES):
            client.log_batch(run_id, metrics=metrics[start : start + BATCH_VALUES])
        params = [Param(metric_name(name), value[:MOST_LENGTH]) for name, value in found.params.items()]
        client.log_batch(run_id, params=params, tags=[RunTag("mlflow.note.content", found.summary[:5000])])
        if found.models:
            client.log_inputs(run_id, models=[LoggedModelInput(model) for model in dict.fromkeys(found.models)])
        for name, table in found.tables.items():
            client.log_table(run_id, {key: list(values) for key, values in table.items()}, name)
        with TemporaryDirectory() as folder:
            Path(folder, PAGE).write_text(found.page, encoding="utf-8")
            Path(folder, RECORD).write_text(json.dumps(found.record, ensure_ascii=False, indent=1), encoding="utf-8")
            client.log_artifacts(run_id, folder)
        client.set_terminated(run_id, "FINISHED")
    where = without_password(server.uri).rstrip("/")
    link = f"{where}/#/experiments/{experiment}/runs/{run_id}"
    return link if is_web(server.uri) else f"run {run_id} of the experiment {found.experiment!r} in {where}"
