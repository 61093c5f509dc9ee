"""What MLflow knows of checkpoints and runs: metrics over training, standard errors, links. Read only."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from argosy.errors import InputError
from argosy.tracking.models import CHECKPOINT
from argosy.tracking.names import quoted
from argosy.tracking.registry import registered_name
from argosy.tracking.runs import CURVES, NODE, PIPELINE
from argosy.tracking.server import Server, without_password

if TYPE_CHECKING:
    from mlflow.entities import LoggedModel, Metric, Run

RESULTS = "results.json"
MOST_METRICS = 500  # of a run, whose history is asked for one by one
MOST_POINTS = 200  # of a run's curve
_ABSENT = ("RESOURCE_DOES_NOT_EXIST", "INVALID_PARAMETER_VALUE", "NOT_FOUND")


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


class Results:
    """The results on one server. Every method raises Unavailable where it does not answer."""

    def __init__(self, server: Server) -> None:
        self._server = server

    @property
    def where(self) -> str:
        """The server, without a password."""
        return without_password(self._server.uri)

    def of_alias(self, model: str, alias: str) -> Result:
        """What an alias, or a version (a number), of a registered model names.

        Raises:
            InputError: there is no such model, alias or version; names those that there are.
        """
        from mlflow.exceptions import MlflowException

        name = registered_name(model)
        with self._server.errors():
            client = self._server.client
            try:
                found = (client.get_model_version(name, alias) if alias.isdigit()
                         else client.get_model_version_by_alias(name, alias))  # fmt: skip
            except MlflowException as error:
                if error.error_code not in _ABSENT:
                    raise
                found = None
            aliases = None if found else self._aliases(name)
            logged = self._logged_of(found.model_id or "", dict(found.tags).get(CHECKPOINT, "")) if found else None
        if found is None:
            raise absent(name, alias, aliases, self.where)
        if logged is None:
            raise InputError(f"{name}@{alias} is version {found.version}, of which MLflow at {self.where} has no "
                             "logged model, so no metrics")  # fmt: skip
        return self._result(logged)

    def of_model(self, model_id: str) -> Result:
        """A LoggedModel by its id. Raises InputError where there is none."""
        from mlflow.exceptions import MlflowException

        with self._server.errors():
            try:
                logged = self._server.client.get_logged_model(model_id)
            except MlflowException as error:
                if error.error_code not in _ABSENT:
                    raise
                logged = None
        if logged is None:
            raise InputError(f"MLflow at {self.where} has no logged model {model_id!r}")
        return self._result(logged)

    def of_run(self, run_id: str) -> list[Result]:
        """What a run is about, the last one last: a step's checkpoints, those that an evaluation is of, the points of a
        curve run, or those of any other run, at its metrics' steps.

        Raises:
            InputError: there is no such run, or it has no metrics.
        """
        from mlflow.exceptions import MlflowException

        with self._server.errors():
            try:
                run = self._server.client.get_run(run_id)
            except MlflowException as error:
                if error.error_code not in _ABSENT:
                    raise
                run = None
        if run is None:
            raise InputError(f"MLflow at {self.where} has no run {run_id!r}; its page in MLflow shows the id")
        models = self._models_of(run)
        if models and CURVES not in run.data.tags:
            return models
        points = self._points(run)
        if not points:
            raise InputError(f"the run {run.info.run_name or run_id} has no metrics to compare")
        return points

    def of_line(self, line: str) -> list[Result]:
        """Checkpoints of an experiment that have metrics, by tokens; none where there is no such experiment."""
        with self._server.errors():
            experiment = self._server.client.get_experiment_by_name(line)
            logged = list(self._server.logged_models([experiment.experiment_id])) if experiment else []
        found = [self._result(m) for m in logged if CHECKPOINT in m.tags and m.metrics]
        return sorted(found, key=lambda r: (r.tokens, r.step, r.name))

    def experiments(self) -> list[str]:
        """Names of all."""
        with self._server.errors():
            return sorted(e.name for e in self._server.client.search_experiments())

    def by_key(self, line: str, key: str) -> Result | None:
        """The LoggedModel of a checkpoint of ours."""
        with self._server.errors():
            experiment = self._server.client.get_experiment_by_name(line)
            wanted = f"tags.`{CHECKPOINT}` = {quoted(key)}"
            found = next(self._server.logged_models([experiment.experiment_id], wanted), None) if experiment else None
        return self._result(found) if found else None

    def errors_of(self, result: Result) -> dict[str, dict[str, Any]]:
        """`stderr`, `counts` and `headline` of its evaluations, as far as they logged results.json."""
        found: dict[str, dict[str, Any]] = {"stderr": {}, "counts": {}, "headline": {}}
        for run in result.runs:
            for name, values in self._results_of(run).items():
                if name in found and isinstance(values, dict):
                    found[name].update(values)
        return found

    def _results_of(self, run: str) -> dict[str, Any]:
        with self._server.errors():
            client = self._server.client
            if not any(file.path == RESULTS for file in client.list_artifacts(run)):
                return {}
            with TemporaryDirectory() as folder:
                path = client.download_artifacts(run, RESULTS, folder)
                found = json.loads(Path(path).read_text(encoding="utf-8"))
        return found if isinstance(found, dict) else {}

    def _models_of(self, run: Run) -> list[Result]:
        """Of a training run its checkpoints, of an evaluation's run what it evaluated, of a pipeline run all."""
        ids = [m.model_id for m in (run.outputs.model_outputs if run.outputs else [])]
        ids += [m.model_id for m in (run.inputs.model_inputs if run.inputs else [])]
        if PIPELINE in run.data.tags and NODE not in run.data.tags:
            wanted = f"tags.`pipeline_run` = {quoted(run.info.run_id)}"
            with self._server.errors():
                ids += [m.model_id for m in self._server.logged_models([run.info.experiment_id], wanted)]
        found = [self.of_model(model) for model in dict.fromkeys(ids)]
        return sorted((r for r in found if r.metrics), key=lambda r: (r.tokens, r.step, r.name))

    def _points(self, run: Run) -> list[Result]:
        """A result for each step of a run's metrics; of long curves every so many."""
        at: dict[int, dict[str, float]] = {}
        with self._server.errors():
            line = self._server.client.get_experiment(run.info.experiment_id).name
            for name in sorted(run.data.metrics)[:MOST_METRICS]:
                history = self._server.client.get_metric_history(run.info.run_id, name)
                for metric in _thin(sorted(history, key=lambda m: (m.step, m.timestamp))):
                    at.setdefault(metric.step, {})[name] = metric.value
        is_curve = CURVES in run.data.tags  # whose steps are tokens
        title = str(run.info.run_name or run.info.run_id)
        link = self._link(run.info.experiment_id, "runs", run.info.run_id)
        points = [Result(title, line, step=0 if is_curve else step, tokens=step if is_curve else 0, metrics=values,
                         link=link) for step, values in sorted(at.items())]  # fmt: skip
        if points:
            points[-1].metrics = dict(run.data.metrics)
        return points

    def _result(self, logged: LoggedModel) -> Result:
        tags = dict(logged.tags)
        with self._server.errors():
            line = self._server.client.get_experiment(logged.experiment_id).name
        newest: dict[str, Metric] = {}
        for metric in sorted(logged.metrics or [], key=lambda m: m.timestamp):
            newest[metric.key] = metric
        runs = list(dict.fromkeys(m.run_id for m in newest.values() if m.run_id))
        return Result(
            logged.name, line, tags.get(CHECKPOINT, ""), tags.get("stage", ""), _whole(tags.get("step")),
            _whole(tags.get("tokens")), tags.get("path", ""), logged.model_id,
            self._link(logged.experiment_id, "models", logged.model_id), {k: m.value for k, m in newest.items()}, runs,
        )  # fmt: skip

    def _logged_of(self, model_id: str, key: str) -> LoggedModel | None:
        if model_id:
            return self._server.client.get_logged_model(model_id)
        experiments = [e.experiment_id for e in self._server.client.search_experiments()]
        wanted = f"tags.`{CHECKPOINT}` = {quoted(key)}"
        return next(self._server.logged_models(experiments, wanted), None) if key else None

    def _aliases(self, name: str) -> list[str] | None:
        """Those of a registered model; None where there is no such model."""
        found = self._server.client.search_registered_models(f"name = {quoted(name)}")
        return sorted(found[0].aliases) if found else None

    def _link(self, experiment: str, kind: str, name: str) -> str:
        uri = self._server.uri
        return f"{without_password(uri).rstrip('/')}/#/experiments/{experiment}/{kind}/{name}" if is_web(uri) else ""


def is_web(uri: str) -> bool:
    """Whether a browser can open it."""
    return uri.startswith(("http://", "https://"))


def absent(name: str, alias: str, aliases: list[str] | None, where: str) -> InputError:
    """That a registered model, or its alias, does not exist."""
    if aliases is None:
        return InputError(f"MLflow at {where} has no registered model {name!r}; 'argosy promote CHECKPOINT' makes one")
    return InputError(f"{name!r} has no alias or version {alias!r} in MLflow at {where}; its aliases: "
                      f"{', '.join(aliases) or 'none'} ('argosy promote' sets one)")


def _thin(points: list[Metric]) -> Iterable[Metric]:
    if len(points) <= MOST_POINTS:
        return points
    return [points[round(i * (len(points) - 1) / (MOST_POINTS - 1))] for i in range(MOST_POINTS)]


def _whole(text: str | None) -> int:
    try:
        return int(float(text or 0))
    except ValueError:
        return 0
