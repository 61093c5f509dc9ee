"""Checkpoints and runs read from MLflow: metrics over training, standard errors, links."""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, TypeVar

from argosy.core.errors import InputError
from argosy.core.store.files import read_json
from argosy.core.tracking.mlflow.registry import find_version, registered_name, unless_absent
from argosy.core.tracking.mlflow.runs import CURVES_TAG, NODE_TAG, PIPELINE_TAG
from argosy.core.tracking.mlflow.server import CHECKPOINT, Server, quoted, without_password
from argosy.core.tracking.spool import HEADLINE

if TYPE_CHECKING:
    from mlflow.entities import LoggedModel, Metric, Run

VIEW = "workflowType=machine_learning"  # without, MLflow 3.17 shows its pages for agents, whatever the experiment is
T = TypeVar("T")
RESULTS = "results.json"
MOST_METRICS = 500  # of a run, whose histories are requested one by one
MOST_POINTS = 200  # of a run's curve


@dataclass
class Result:
    """A checkpoint, or a point of a run."""

    name: str
    line: str
    """The experiment's name."""
    key: str = ""
    """`<digest>/<export>` of a checkpoint of ours; "" for others."""
    stage: str = ""
    step: int = 0
    tokens: int = 0
    path: str = ""
    model: str = ""
    """The LoggedModel's id; "" for a run."""
    link: str = ""
    metrics: dict[str, float] = field(default_factory=dict)
    runs: list[str] = field(default_factory=list)
    """Ids of the runs that measured the metrics."""


def result_of(logged: "LoggedModel", server: Server) -> Result:
    """The newest of each metric of a LoggedModel. Raises Unavailable where the server does not answer."""
    tags = dict(logged.tags)
    with server.errors():
        line = server.client.get_experiment(logged.experiment_id).name
    newest: dict[str, Metric] = {}
    for metric in sorted(logged.metrics or [], key=lambda m: m.timestamp):
        if not metric.key.startswith(HEADLINE):
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
    where = f"{without_password(uri).rstrip('/')}/#/experiments/{experiment}/{kind}/{name}"
    return f"{where}?{VIEW}" if is_web(uri) else ""


def is_web(uri: str) -> bool:
    """Whether a browser can open it."""
    return uri.startswith(("http://", "https://"))


def _whole(text: str | None) -> int:
    try:
        return int(float(text or 0))
    except ValueError:
        return 0


def points_of(run: "Run", server: Server) -> list[Result]:
    """A result for each step of a run's metrics; of long curves every so many."""
    at: dict[int, dict[str, float]] = {}
    with server.errors():
        line = server.client.get_experiment(run.info.experiment_id).name
        for name in sorted(n for n in run.data.metrics if not n.startswith(HEADLINE))[:MOST_METRICS]:
            history = server.client.get_metric_history(run.info.run_id, name)
            every = sorted(history, key=lambda m: (m.step, m.timestamp))
            last, count = len(every) - 1, min(len(every), MOST_POINTS)
            for metric in (every[round(n * last / max(1, count - 1))] for n in range(count)):
                at.setdefault(metric.step, {})[name] = metric.value
    is_curve = CURVES_TAG in run.data.tags  # whose steps are tokens
    title = str(run.info.run_name or run.info.run_id)
    page = link(server, run.info.experiment_id, "runs", run.info.run_id)
    points = [Result(title, line, step=0 if is_curve else step, tokens=step if is_curve else 0, metrics=values,
                     link=page) for step, values in sorted(at.items())]  # fmt: skip
    if points:
        points[-1].metrics = {n: value for n, value in run.data.metrics.items() if not n.startswith(HEADLINE)}
    return points


class Results:
    """The results on one server. Every method raises Unavailable where it does not answer."""

    def __init__(self, server: Server) -> None:
        self._server = server

    @property
    def where(self) -> str:
        """The server, without a password."""
        return without_password(self._server.uri)

    def of_alias(self, model: str, alias: str) -> Result:
        """The checkpoint that an alias, or a version (a number), of a registered model names. Raises InputError: there
        is no such model, alias or version; names those that there are."""
        name = registered_name(model)
        with self._server.errors():
            version = find_version(self._server, name, alias)
            models = [] if version else self._server.client.search_registered_models(f"name = {quoted(name)}")
            aliases = sorted(models[0].aliases) if models else None
            logged = self._logged_of(version.model_id or "", version.tags.get(CHECKPOINT, "")) if version else None
        if version is None:
            if aliases is None:
                raise InputError(f"MLflow at {self.where} has no registered model {name!r}; 'argosy promote "
                                 "CHECKPOINT' makes one")
            raise InputError(f"{name!r} has no alias or version {alias!r} in MLflow at {self.where}; its aliases: "
                             f"{', '.join(aliases) or 'none'} ('argosy promote' sets one)")
        if logged is None:
            raise InputError(f"{name}@{alias} is version {version.version}, of which MLflow at {self.where} has no "
                             "logged model, so no metrics")  # fmt: skip
        return result_of(logged, self._server)

    def of_model(self, model_id: str) -> Result:
        """A LoggedModel by its id. Raises InputError where there is none."""
        logged = self._unless_absent(lambda: self._server.client.get_logged_model(model_id))
        if logged is None:
            raise InputError(f"MLflow at {self.where} has no logged model {model_id!r}")
        return result_of(logged, self._server)

    def of_run(self, run_id: str) -> list[Result]:
        """The results of a run, the last one last: a step's checkpoints, those that an evaluation measured, the points
        of a curve run, or those of any other run, at its metrics' steps.

        Raises InputError: there is no such run, or it has no metrics."""
        run = self._unless_absent(lambda: self._server.client.get_run(run_id))
        if run is None:
            raise InputError(f"MLflow at {self.where} has no run {run_id!r}; its page in MLflow shows the id")
        models = self._models_of(run)
        if models and CURVES_TAG not in run.data.tags:
            return models
        points = points_of(run, self._server)
        if not points:
            raise InputError(f"the run {run.info.run_name or run_id} has no metrics to compare")
        return points

    def of_line(self, line: str) -> list[Result]:
        """Checkpoints of an experiment that have metrics, by tokens; none where there is no such experiment."""
        with self._server.errors():
            experiment = self._server.client.get_experiment_by_name(line)
            logged = list(self._server.logged_models([experiment.experiment_id])) if experiment else []
        results = [result_of(m, self._server) for m in logged if CHECKPOINT in m.tags and m.metrics]
        return sorted(results, key=lambda r: (r.tokens, r.step, r.name))

    def experiments(self) -> list[str]:
        """Names of all."""
        with self._server.errors():
            return sorted(e.name for e in self._server.client.search_experiments())

    def by_key(self, line: str, key: str) -> Result | None:
        """The LoggedModel of a checkpoint of ours."""
        with self._server.errors():
            logged = self._server.model_of(line, key)
        return result_of(logged, self._server) if logged else None

    def errors_of(self, result: Result) -> dict[str, Any]:
        """`metrics`, `stderr`, `counts`, `headline` and `kinds` of its evaluations that logged results.json."""
        fields: dict[str, Any] = {"metrics": {}, "stderr": {}, "counts": {}, "headline": {}, "kinds": []}
        with self._server.errors(), TemporaryDirectory() as folder:
            client = self._server.client
            for run in result.runs:
                if not any(file.path == RESULTS for file in client.list_artifacts(run)):
                    continue
                for name, values in read_json(Path(client.download_artifacts(run, RESULTS, folder))).items():
                    if name == "kinds":
                        fields[name].extend(values)
                    elif name in fields:
                        fields[name].update(values)
        return fields

    def _unless_absent(self, get: Callable[[], T]) -> T | None:
        with self._server.errors():
            return unless_absent(get)

    def _models_of(self, run: "Run") -> list[Result]:
        """The checkpoints of a training run, those that an evaluation's run measured, or all of a pipeline run."""
        ids = [m.model_id for m in (run.outputs.model_outputs if run.outputs else [])]
        ids += [m.model_id for m in (run.inputs.model_inputs if run.inputs else [])]
        if PIPELINE_TAG in run.data.tags and NODE_TAG not in run.data.tags:
            wanted = f"tags.`pipeline_run` = {quoted(run.info.run_id)}"
            with self._server.errors():
                ids += [m.model_id for m in self._server.logged_models([run.info.experiment_id], wanted)]
        results = [self.of_model(model) for model in dict.fromkeys(ids)]
        return sorted((r for r in results if r.metrics), key=lambda r: (r.tokens, r.step, r.name))

    def _logged_of(self, model_id: str, key: str) -> "LoggedModel | None":
        if model_id:
            return self._server.client.get_logged_model(model_id)
        experiments = [e.experiment_id for e in self._server.client.search_experiments()]
        wanted = f"tags.`{CHECKPOINT}` = {quoted(key)}"
        return next(self._server.logged_models(experiments, wanted), None) if key else None
