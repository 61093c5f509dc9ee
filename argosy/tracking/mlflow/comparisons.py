"""A comparison as a run of MLflow: metrics, tables that its own interface shows, and the page as an artifact."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from argosy.tracking.mlflow.read import link
from argosy.tracking.mlflow.runs import Runs
from argosy.tracking.mlflow.server import Server, metric_name, without_password
from argosy.tracking.ship import BATCH_VALUES

COMPARISON = "argosy.comparison"
PAGE, RECORD = "compare.html", "comparison.json"
MOST_LENGTH = 6000  # characters of a param


@dataclass(frozen=True)
class ComparisonRun:
    """The content of a comparison's run."""

    line: str
    """The model line of the first that was compared."""
    name: str
    metrics: Mapping[str, float]
    params: Mapping[str, str]
    tables: Mapping[str, Mapping[str, Sequence[object]]]
    """Columns by file name, as MLflow's log_table writes them."""
    models: Sequence[str]
    """Ids of LoggedModels that were compared."""
    page: str
    record: Mapping[str, Any]
    summary: str = ""
    tags: Mapping[str, str] = field(default_factory=dict)

    @property
    def experiment(self) -> str:
        """An experiment of its own: in the line's, its metrics would be among those of checkpoints in every chart."""
        return f"{self.line} comparisons"


def log_comparison(server: Server, content: ComparisonRun) -> str:
    """Log it as a new run; returns where it is. Raises Unavailable where the server does not answer, or refuses it."""
    import time

    from mlflow.entities import LoggedModelInput, Metric, Param, RunTag

    with server.errors():
        client, now = server.client, int(time.time() * 1000)
        experiment = Runs(server).experiment(content.experiment)
        run = client.create_run(experiment, run_name=content.name, tags={COMPARISON: "true", **content.tags})
        run_id = run.info.run_id
        metrics = [Metric(metric_name(name), value, now, 0) for name, value in content.metrics.items()]
        for start in range(0, len(metrics), BATCH_VALUES):
            client.log_batch(run_id, metrics=metrics[start : start + BATCH_VALUES])
        params = [Param(metric_name(name), value[:MOST_LENGTH]) for name, value in content.params.items()]
        client.log_batch(run_id, params=params, tags=[RunTag("mlflow.note.content", content.summary[:5000])])
        if content.models:
            client.log_inputs(run_id, models=[LoggedModelInput(model) for model in dict.fromkeys(content.models)])
        for name, table in content.tables.items():
            client.log_table(run_id, {key: list(values) for key, values in table.items()}, name)
        with TemporaryDirectory() as folder:
            Path(folder, PAGE).write_text(content.page, encoding="utf-8")
            Path(folder, RECORD).write_text(json.dumps(content.record, ensure_ascii=False, indent=1), encoding="utf-8")
            client.log_artifacts(run_id, folder)
        client.set_terminated(run_id, "FINISHED")
    where = f"run {run_id} of the experiment {content.experiment!r} in {without_password(server.uri)}"
    return link(server, experiment, "runs", run_id) or where
