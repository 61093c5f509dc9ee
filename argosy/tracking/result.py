"""A checkpoint, or a point of a run, as MLflow knows it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from argosy.tracking.models import CHECKPOINT
from argosy.tracking.server import Server, without_password

if TYPE_CHECKING:
    from mlflow.entities import LoggedModel, Metric


@dataclass
class Result:
    """A checkpoint, or a point of a run.

    Attributes:
        key: `<digest>/<export>` of a checkpoint of ours; "" for others.
        line: the experiment's name.
        model: the LoggedModel's id; "" for a run.
        runs: ids of the runs that found the metrics.
    """

    name: str
    line: str
    key: str = ""
    stage: str = ""
    step: int = 0
    tokens: int = 0
    path: str = ""
    model: str = ""
    link: str = ""
    metrics: dict[str, float] = field(default_factory=dict)
    runs: list[str] = field(default_factory=list)


def result_of(logged: LoggedModel, server: Server) -> Result:
    """The newest of each metric of a LoggedModel. Raises Unavailable where the server does not answer."""
    tags = dict(logged.tags)
    with server.errors():
        line = server.client.get_experiment(logged.experiment_id).name
    newest: dict[str, Metric] = {}
    for metric in sorted(logged.metrics or [], key=lambda m: m.timestamp):
        newest[metric.key] = metric
    runs = list(dict.fromkeys(m.run_id for m in newest.values() if m.run_id))
    return Result(
        logged.name, line, tags.get(CHECKPOINT, ""), tags.get("stage", ""), _whole(tags.get("step")),
        _whole(tags.get("tokens")), tags.get("path", ""), logged.model_id,
        link(server, logged.experiment_id, "models", logged.model_id), {k: m.value for k, m in newest.items()}, runs,
    )  # fmt: skip


def link(server: Server, experiment: str, kind: str, name: str) -> str:
    """The page of a run or model in MLflow's interface; "" where there is no server."""
    uri = server.uri
    return f"{without_password(uri).rstrip('/')}/#/experiments/{experiment}/{kind}/{name}" if is_web(uri) else ""


def is_web(uri: str) -> bool:
    """Whether a browser can open it."""
    return uri.startswith(("http://", "https://"))


def _whole(text: str | None) -> int:
    try:
        return int(float(text or 0))
    except ValueError:
        return 0
