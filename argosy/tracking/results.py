"""What MLflow knows of checkpoints and runs: metrics over training, standard errors, links. Read only."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from argosy.errors import InputError
from argosy.tracking.models import CHECKPOINT
from argosy.tracking.names import quoted
from argosy.tracking.registry import registered_name
from argosy.tracking.result import Result, result_of
from argosy.tracking.run_results import points_of, results_file
from argosy.tracking.runs import CURVES, NODE, PIPELINE
from argosy.tracking.server import Server, without_password

if TYPE_CHECKING:
    from mlflow.entities import LoggedModel, Run

_ABSENT = ("RESOURCE_DOES_NOT_EXIST", "INVALID_PARAMETER_VALUE", "NOT_FOUND")


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
        return result_of(logged, self._server)

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
        return result_of(logged, self._server)

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
        points = points_of(run, self._server)
        if not points:
            raise InputError(f"the run {run.info.run_name or run_id} has no metrics to compare")
        return points

    def of_line(self, line: str) -> list[Result]:
        """Checkpoints of an experiment that have metrics, by tokens; none where there is no such experiment."""
        with self._server.errors():
            experiment = self._server.client.get_experiment_by_name(line)
            logged = list(self._server.logged_models([experiment.experiment_id])) if experiment else []
        found = [result_of(m, self._server) for m in logged if CHECKPOINT in m.tags and m.metrics]
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
        return result_of(found, self._server) if found else None

    def errors_of(self, result: Result) -> dict[str, dict[str, Any]]:
        """`stderr`, `counts` and `headline` of its evaluations, as far as they logged results.json."""
        found: dict[str, dict[str, Any]] = {"stderr": {}, "counts": {}, "headline": {}}
        for run in result.runs:
            for name, values in results_file(run, self._server).items():
                if name in found and isinstance(values, dict):
                    found[name].update(values)
        return found

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


def absent(name: str, alias: str, aliases: list[str] | None, where: str) -> InputError:
    """That a registered model, or its alias, does not exist."""
    if aliases is None:
        return InputError(f"MLflow at {where} has no registered model {name!r}; 'argosy promote CHECKPOINT' makes one")
    return InputError(f"{name!r} has no alias or version {alias!r} in MLflow at {where}; its aliases: "
                      f"{', '.join(aliases) or 'none'} ('argosy promote' sets one)")
