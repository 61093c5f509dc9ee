"""Checkpoints as external LoggedModels, found again by the tag `argosy.checkpoint`."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from argosy.step_files import NODE
from argosy.storage import read_record
from argosy.tracking.batches import Owner
from argosy.tracking.names import model_name, quoted
from argosy.tracking.records import Record
from argosy.tracking.runs import MOST, Runs
from argosy.tracking.server import Server
from argosy.tracking.settle import SETTLED, Settling, best

if TYPE_CHECKING:
    from mlflow.entities import LoggedModel

CHECKPOINT, IS_EXTERNAL = "argosy.checkpoint", "mlflow.model.isExternal"
LONGEST_TAG = 5000  # characters that MLflow keeps of a model's tag


class Models:
    """The LoggedModels of checkpoints on one server."""

    def __init__(self, server: Server, runs: Runs) -> None:
        self._server = server
        self._runs = runs
        self._ids: dict[tuple[str, str], str] = {}

    def forget(self) -> None:
        """Ask again: somebody deleted a model."""
        self._ids.clear()

    def register(self, owner: Owner, record: Record, out: Path) -> str:
        """The model of a `model` record that the step with the run of `owner` made; its tags are set."""
        tags = {
            "stage": record["stage"], "step": record["step"], "tokens": record["tokens"],
            "path": self._server.place(out / record["path"]),
            "pipeline_run": self._runs.parent(owner) if owner.pipeline else "",
            **_made_from(out), **record["values"],
        }  # fmt: skip
        name = f"{owner.line}-{record['stage']}-{record['name']}"
        return self._find_or_create(owner, record["checkpoint"], name, tags, self._runs.of(owner))

    def evaluated(self, owner: Owner, record: Record) -> str:
        """The model that results belong to.

        One that no step has registered here, since it comes from elsewhere or its step's spool is still to be sent,
        is made from the checkpoint's own argosy.json; registering it later completes its tags.
        """
        key = record["checkpoint"]
        known = self._find(owner.line, key)
        if known is not None:
            return known
        path = Path(record["path"])
        about = _about(path)
        stage = str(about.get("stage", ""))
        tags = {"stage": stage, "step": about.get("step", ""), "tokens": record["tokens"],
                "path": self._server.place(path)}
        name = "-".join(part for part in (owner.line, stage, path.name) if part)
        return self._find_or_create(owner, key, name, tags, None)

    def _find(self, line: str, key: str) -> str | None:
        if (line, key) not in self._ids:
            found = self._search(line, key)
            if found is None:
                return None
            self._ids[line, key] = found.model_id
        return self._ids[line, key]

    def _search(self, line: str, key: str) -> LoggedModel | None:
        experiments = [self._runs.experiment(line)]
        return best(self._all(experiments, key), _is_settled)

    def _all(self, experiments: list[str], key: str) -> list[LoggedModel]:
        return list(self._server.client.search_logged_models(
            experiments, f"tags.`{CHECKPOINT}` = {quoted(key)}",
            max_results=MOST if self._server.others_create else 1,
            order_by=[{"field_name": "creation_timestamp", "ascending": True}],
        ))  # fmt: skip

    def _find_or_create(self, owner: Owner, key: str, name: str, tags: dict[str, object], run: str | None) -> str:
        text = {k: str(v)[:LONGEST_TAG] for k, v in tags.items() if v not in ("", None)} | {CHECKPOINT: key}
        experiment = self._runs.experiment(owner.line)
        with self._server.creating():
            model = self._search(owner.line, key)
            if model is None:
                model = self._server.client.create_logged_model(
                    experiment, model_name(name), run, text | {IS_EXTERNAL: "true"}, model_type=text.get("stage")
                )
                if self._server.others_create:  # an evaluation of it, in a pod beside
                    model = self._settling([experiment], key).settle(model, made=True)
            elif text.items() - model.tags.items():
                self._server.client.set_logged_model_tags(model.model_id, text)
            if model.status.name == "PENDING":  # new, or a shipper was killed while it made it
                self._finish(model)
        self._ids[owner.line, key] = model.model_id
        return str(model.model_id)

    def _settling(self, experiments: list[str], key: str) -> Settling[LoggedModel]:
        client = self._server.client
        return Settling(
            search=lambda: self._all(experiments, key),
            key=lambda model: str(model.model_id),
            is_marked=_is_settled,
            mark=lambda model: client.set_logged_model_tags(model.model_id, {SETTLED: "yes"}),
            remove=lambda model: client.delete_logged_model(model.model_id),
        )

    def _finish(self, model: LoggedModel) -> None:
        """As mlflow.create_external_model does, with which a model that is half made could not be completed."""
        from mlflow.models.utils import get_external_mlflow_model_spec

        with TemporaryDirectory() as folder:  # so that the model can be registered in the Model Registry
            get_external_mlflow_model_spec(model).save(str(Path(folder) / "MLmodel"))
            self._server.client.log_model_artifacts(model.model_id, folder)
        self._server.client.finalize_logged_model(model.model_id, "READY")


def _made_from(out: Path) -> dict[str, str]:
    """Digests of the step's config, and of all that it read."""
    made = read_record(out / NODE)
    parts = {"config_digest": made.get("config"), "data_digest": [made.get("upstream"), made.get("external")]}
    return {name: hashlib.sha256(json.dumps(part, sort_keys=True).encode()).hexdigest()[:12]
            for name, part in parts.items() if made}


def _about(checkpoint: Path) -> dict[str, Any]:
    return read_record(checkpoint / "argosy.json")


def _is_settled(model: LoggedModel) -> bool:
    return SETTLED in model.tags
