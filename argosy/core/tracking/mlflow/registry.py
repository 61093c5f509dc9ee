"""The model registry: the checkpoint that an alias such as `reference` names, and moving it there and back.

A registered model is a model line; its versions are checkpoints, found again by their tag. The versions that an alias
named before are kept in a tag of the registered model, so that a move can be undone."""

import json
import re
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, TypeVar

from argosy.core.errors import InputError, StepError
from argosy.core.tracking.mlflow.server import CHECKPOINT, Server, quoted, without_password

if TYPE_CHECKING:
    from mlflow.entities import LoggedModel
    from mlflow.entities.model_registry import ModelVersion

T = TypeVar("T")
HISTORY = "argosy.alias.{}.history"  # of a registered model: versions that the alias named before, the last one last
MOST_HISTORY = 100
ABSENT = ("RESOURCE_DOES_NOT_EXIST", "INVALID_PARAMETER_VALUE", "NOT_FOUND")  # of a model, of an alias, of a run
_NOT_IN_NAME = re.compile(r"[/:]")  # of a registered model; MLflow takes the rest


@dataclass(frozen=True)
class LoggedCheckpoint:
    """A checkpoint that MLflow has: its model line, `<digest>/<export>`, and its place when it was logged."""

    line: str
    checkpoint: str
    path: str


@dataclass(frozen=True)
class Version:
    """A version of a registered model, and the tags that say how it came by its alias."""

    model: str
    version: str
    checkpoint: str
    path: str
    tags: Mapping[str, str] = field(default_factory=dict)


def registered_name(line: str) -> str:
    """The registered model of a model line."""
    return _NOT_IN_NAME.sub("_", line)


class Moved(StepError):
    """An alias names another checkpoint than it did when somebody decided to move it."""

    def __init__(self, model: str, alias: str, before: str, now: str) -> None:
        super().__init__(f"{model}@{alias} was moved meanwhile, from {before or 'nothing'} to {now or 'nothing'}, "
                         "which was not compared with; nothing was moved, run it again")


class Registry:
    """The checkpoints and aliases of one server. Every method raises Unavailable where it does not answer."""

    def __init__(self, server: Server) -> None:
        self._server = server

    def checkpoints(self) -> list[LoggedCheckpoint]:
        """All LoggedModels that are checkpoints, of every model line."""
        with self._server.errors():
            lines = {e.experiment_id: e.name for e in self._server.client.search_experiments()}
            return [LoggedCheckpoint(lines[model.experiment_id], model.tags[CHECKPOINT], model.tags.get("path", ""))
                    for model in self._server.logged_models(list(lines)) if CHECKPOINT in model.tags]

    def at(self, model: str, alias: str) -> Version | None:
        """The version that `alias` of the registered model names; None where there is no such alias or model."""
        with self._server.errors():
            found = find_version(self._server, registered_name(model), alias)
            return _version(found) if found else None

    def before(self, model: str, alias: str) -> Version | None:
        """The version that `alias` named before it was moved last; None where it named nothing then."""
        name = registered_name(model)
        with self._server.errors():
            history = self._history(name, alias)
            return _version(self._server.client.get_model_version(name, history[-1])) if history[-1:] > [""] else None

    def move(self, model: str, alias: str, line: str, checkpoint: str, tags: Mapping[str, str],
             evidence: Path | None = None, before: str | None = None) -> Version:
        """Let `alias` name `checkpoint`, which MLflow has, and keep what it named; again changes nothing but tags.

        Args:
            tags: of the version; an empty value takes away one of an earlier move.
            evidence: a file that becomes an artifact of the checkpoint's model, below `promotions`.
            before: the checkpoint that the alias is expected to name ("": nothing); None: whatever it names.

        Raises InputError: MLflow does not have the checkpoint; Moved: the alias does not name `before`."""
        name = registered_name(model)
        with self._server.errors():
            logged = self._server.model_of(line, checkpoint)
        if logged is None:
            where = without_password(self._server.uri)
            raise InputError(f"MLflow at {where} has no checkpoint {checkpoint} of the model line {line!r}; "
                             "what steps logged is sent by: python -m argosy.core.tracking ship --store DIR --once")
        with self._server.errors(), self._server.creating():
            version = self._version_of(name, logged)
            if evidence is not None:
                self._log(logged.model_id, evidence)
            there = self._server.client.get_model_version(name, version).tags
            for key, value in tags.items():
                if value:
                    self._server.client.set_model_version_tag(name, version, key, value)
                elif key in there:
                    self._server.client.delete_model_version_tag(name, version, key)
        current = self.at(model, alias)  # as late as can be: MLflow has no "set it if it is still this one"
        if before is not None and before != (current.checkpoint if current else ""):
            raise Moved(name, alias, before, current.checkpoint if current else "")
        with self._server.errors(), self._server.creating():
            if current is None or current.version != version:
                before_it, history = current.version if current else "", self._history(name, alias)
                if history[-1:] != [before_it]:  # unless a move that was cut off has added it already
                    self._keep(name, alias, [*history, before_it][-MOST_HISTORY:])
                self._server.client.set_registered_model_alias(name, alias, version)
        found = self.at(model, alias)
        assert found is not None
        return found

    def undo(self, model: str, alias: str) -> Version | None:
        """Let `alias` name what it named before the last move; None where it named nothing then. Raises InputError: it
        was never moved."""
        name = registered_name(model)
        current = self.at(model, alias)
        with self._server.errors(), self._server.creating():
            history = self._history(name, alias) if current else []
            if history:
                if history[-1]:
                    self._server.client.set_registered_model_alias(name, alias, history[-1])
                else:
                    self._server.client.delete_registered_model_alias(name, alias)
                self._keep(name, alias, history[:-1])
        if not history:
            raise InputError(f"the alias {alias!r} of {name!r} was never moved, so there is nothing to undo")
        return self.at(model, alias)

    def _version_of(self, name: str, logged: "LoggedModel") -> str:
        """The version that is this checkpoint, by its tag; made where there is none."""
        client = self._server.client
        if not client.search_registered_models(f"name = {quoted(name)}"):
            client.create_registered_model(name)
        for version in client.search_model_versions(f"name = {quoted(name)}"):
            if version.tags.get(CHECKPOINT) == logged.tags[CHECKPOINT]:
                return str(version.version)
        tags = {key: logged.tags[key] for key in (CHECKPOINT, "path", "stage", "step", "tokens") if key in logged.tags}
        # Without a run, MLflow 3.17 looks the model up in the process's own tracking store, which may be another.
        run = logged.source_run_id
        model = logged.model_id if run else None
        made = client.create_model_version(name, logged.artifact_location, run_id=run, tags=tags, model_id=model)
        return str(made.version)

    def _log(self, model_id: str, evidence: Path) -> None:
        with TemporaryDirectory() as folder:
            below = Path(folder) / "promotions"
            below.mkdir()
            shutil.copyfile(evidence, below / evidence.name)
            self._server.client.log_model_artifacts(model_id, folder)

    def _history(self, name: str, alias: str) -> list[str]:
        text = self._server.client.get_registered_model(name).tags.get(HISTORY.format(alias), "[]")
        return [str(version) for version in json.loads(text)]

    def _keep(self, name: str, alias: str, history: list[str]) -> None:
        self._server.client.set_registered_model_tag(name, HISTORY.format(alias), json.dumps(history))


def find_version(server: Server, name: str, alias: str) -> "ModelVersion | None":
    """The version of a registered model by an alias or a number; None where there is no such one."""
    get = server.client.get_model_version if alias.isdigit() else server.client.get_model_version_by_alias
    return unless_absent(lambda: get(name, alias))


def unless_absent(get: Callable[[], T]) -> T | None:
    """Return what `get` requests of MLflow; None where MLflow has no such thing."""
    from mlflow.exceptions import MlflowException

    try:
        return get()
    except MlflowException as error:
        if error.error_code in ABSENT:
            return None
        raise


def _version(found: "ModelVersion") -> Version:
    tags = dict(found.tags)
    return Version(found.name, str(found.version), tags.get(CHECKPOINT, ""), tags.get("path", ""), tags)
