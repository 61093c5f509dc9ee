"""What one run of MLflow has: its metrics by step, and the results.json of an evaluation."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from argosy.tracking.result import Result, link
from argosy.tracking.runs import CURVES
from argosy.tracking.server import Server

if TYPE_CHECKING:
    from mlflow.entities import Metric, Run

RESULTS = "results.json"
MOST_METRICS = 500  # of a run, whose history is asked for one by one
MOST_POINTS = 200  # of a run's curve


def points_of(run: Run, server: Server) -> list[Result]:
    """A result for each step of a run's metrics; of long curves every so many."""
    at: dict[int, dict[str, float]] = {}
    with server.errors():
        line = server.client.get_experiment(run.info.experiment_id).name
        for name in sorted(run.data.metrics)[:MOST_METRICS]:
            history = server.client.get_metric_history(run.info.run_id, name)
            for metric in _thin(sorted(history, key=lambda m: (m.step, m.timestamp))):
                at.setdefault(metric.step, {})[name] = metric.value
    is_curve = CURVES in run.data.tags  # whose steps are tokens
    title = str(run.info.run_name or run.info.run_id)
    page = link(server, run.info.experiment_id, "runs", run.info.run_id)
    points = [Result(title, line, step=0 if is_curve else step, tokens=step if is_curve else 0, metrics=values,
                     link=page) for step, values in sorted(at.items())]  # fmt: skip
    if points:
        points[-1].metrics = dict(run.data.metrics)
    return points


def results_file(run: str, server: Server) -> dict[str, Any]:
    """What an evaluation's run logged as results.json; nothing where it did not."""
    with server.errors():
        client = server.client
        if not any(file.path == RESULTS for file in client.list_artifacts(run)):
            return {}
        with TemporaryDirectory() as folder:
            path = client.download_artifacts(run, RESULTS, folder)
            found = json.loads(Path(path).read_text(encoding="utf-8"))
    return found if isinstance(found, dict) else {}


def _thin(points: list[Metric]) -> Iterable[Metric]:
    if len(points) <= MOST_POINTS:
        return points
    return [points[round(i * (len(points) - 1) / (MOST_POINTS - 1))] for i in range(MOST_POINTS)]
