"""Experiments, runs and LoggedModels, found again by their tags so that retries and later pipeline runs use the same.

Processes of one store find and create under a lock. Pods whose stores are mirrors of a bucket share no lock: each looks
again a while after it has created something, and all settle on the same."""

import hashlib
import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from argosy.core.store.files import read_record
from argosy.core.store.provenance import flat
from argosy.core.store.step_files import NODE
from argosy.core.tracking.mlflow.server import CHECKPOINT, NOT_IN_MODEL, STORE, Server, metric_name, paged, quoted
from argosy.core.tracking.ship import Refused
from argosy.core.tracking.spool import Owner, Record

if TYPE_CHECKING:
    from mlflow.entities import LoggedModel, Run

NODE_TAG, PIPELINE_TAG, CURVES_TAG = "argosy.node", "argosy.pipeline", "argosy.curves"
SPOOL_TAG, EQUAL_TAG, BASE_TAG = "argosy.spool", "argosy.equal_runs", "argosy.base"
IS_EXTERNAL = "mlflow.model.isExternal"
KIND = {"mlflow.experimentKind": "custom_model_development"}  # MLflow's pages for models, not those for agents
LONGEST_TAG = 5000  # characters that MLflow keeps of a model's tag
SETTLED = "argosy.settled"  # tag of what pods have agreed on
WAIT_S = 3.0  # longer than it takes another pod from looking to having created something
_NONE: Mapping[str, str] = MappingProxyType({})
T = TypeVar("T")


@dataclass(frozen=True)
class Shared(Generic[T]):
    """Something on the server that several pods may create at one moment, and of which all must take the same.

    That is decided without clocks, which differ between pods: the one that has been settled, else the smallest id."""

    find: Callable[[], Sequence[T]]
    create: Callable[[], T]
    remove: Callable[[T], object]
    settle: Callable[[T], object]
    """Set the tag SETTLED."""
    id_of: Callable[[T], str]
    tags_of: Callable[[T], Mapping[str, str]]

    def find_or_create(self, *, alone: bool) -> T:
        """Find the one that counts, created where there is none; alone: nobody else creates one at this moment."""
        found = self._best()
        kept = found or self.create()
        if alone or SETTLED in self.tags_of(kept):
            return kept
        time.sleep(WAIT_S)
        mine, kept = kept, self._best() or kept
        if found is None and self.id_of(mine) != self.id_of(kept):
            self.remove(mine)  # and the maker of the other settles it: two that set a tag at once fail
        elif SETTLED not in self.tags_of(kept):
            self.settle(kept)
        return kept

    def _best(self) -> T | None:
        return min(self.find(), key=lambda each: (SETTLED not in self.tags_of(each), self.id_of(each)), default=None)


class Runs:
    """The ids of experiments and runs on one server, each looked up once."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._experiments: dict[str, str] = {}
        self._ids: dict[tuple[str, str, str], str] = {}
        self._joined: set[tuple[str, str, str, str]] = set()

    def experiment(self, line: str) -> str:
        """The id of the experiment of a model line."""
        if line not in self._experiments:
            with self._server.creating():
                self._experiments[line] = self._find_or_create_experiment(line)
        return self._experiments[line]

    def of(self, owner: Owner) -> str:
        """The run of a spool's owner, below its first pipeline run.

        What was computed twice, in two stores or in one that was emptied, is two runs; the later names the other."""
        if not owner.node:
            return self.parent(owner)
        tags = {"mlflow.parentRunId": self.parent(owner)} if owner.pipeline else {}
        tags |= {f"argosy.{key}": value for key in ("step", "part") if (value := getattr(owner, key))}
        if not owner.id:
            return self._run(owner, NODE_TAG, owner.digest, owner.name, tags)
        return self._run(owner, SPOOL_TAG, owner.id, owner.name, {**tags, NODE_TAG: owner.digest})

    def parent(self, owner: Owner) -> str:
        """The run of the pipeline run that first started this node."""
        return self._run(owner, PIPELINE_TAG, owner.pipeline, f"{owner.line} {owner.pipeline}")

    def curves(self, owner: Owner, branch: str, base: str = "") -> str:
        """The run that shows a model line's results over training; `base`: where a branch leaves it, a checkpoint."""
        name = f"{owner.line} curves ({branch})" if branch else f"{owner.line} curves"
        key = owner.line, CURVES_TAG, branch or "main"
        is_new = key not in self._ids
        run = self._run(owner, *key[1:], name, {STORE: self._server.store_of(self._server.store)})
        if base and (*key, base) not in self._joined:
            self._server.client.set_tag(run, f"{BASE_TAG}.{base}", "true")
            self._joined.add((*key, base))
        if is_new:
            self._server.client.set_terminated(run, "FINISHED")  # nothing runs in it: it collects results
        return run

    def branches_from(self, owner: Owner, checkpoint: str) -> "list[Run]":
        """The runs of the curves that leave the line at a checkpoint."""
        return self._find(self.experiment(owner.line), f"{BASE_TAG}.{checkpoint}", "true",
                          self._server.store_of(self._server.store))

    def _find(self, experiment: str, tag: str, value: str, store: str = "") -> "list[Run]":
        """The runs with a tag; those of one store alone, unless it is ""."""
        found = paged(lambda token: self._server.client.search_runs(
            [experiment], f"tags.`{tag}` = {quoted(value)}", page_token=token))
        return [run for run in found if not store or run.data.tags.get(STORE, store) == store]

    def _run(self, owner: Owner, tag: str, value: str, name: str, tags: Mapping[str, str] = _NONE) -> str:
        key = (owner.line, tag, value)
        if key not in self._ids:
            experiment = self.experiment(owner.line)
            client = self._server.client
            alone = tag in (NODE_TAG, SPOOL_TAG) or not self._server.others_create  # one pod at a time works on a node

            def create() -> "Run":
                equal = self._find(experiment, NODE_TAG, digest) if (digest := tags.get(NODE_TAG)) else []
                named = {EQUAL_TAG: ", ".join(run.info.run_id for run in equal)} if equal else {}
                return client.create_run(experiment, start_time=owner.time or None, run_name=name,
                                         tags={tag: value, **tags, **named})

            shared: Shared[Run] = Shared(
                find=lambda: self._find(experiment, tag, value, tags.get(STORE, "")),
                create=create,
                remove=lambda run: client.delete_run(run.info.run_id),
                settle=lambda run: client.set_tag(run.info.run_id, SETTLED, "true"),
                id_of=lambda run: str(run.info.run_id),
                tags_of=lambda run: run.data.tags)  # fmt: skip
            with self._server.creating():
                self._ids[key] = str(shared.find_or_create(alone=alone).info.run_id)
        return self._ids[key]

    def _find_or_create_experiment(self, line: str) -> str:
        from mlflow.exceptions import MlflowException

        client = self._server.client
        experiment = client.get_experiment_by_name(line)
        if experiment is None:
            return str(client.create_experiment(line, artifact_location=self._server.artifact_location, tags=KIND))
        for key, value in KIND.items() - experiment.tags.items():
            try:
                client.set_experiment_tag(experiment.experiment_id, key, value)
            except MlflowException:  # two that set a tag at once: the server takes one
                if client.get_experiment(experiment.experiment_id).tags.get(key) != value:
                    raise
        if experiment.lifecycle_stage != "active":
            raise Refused(f"experiment {line!r} is deleted there; restore it or choose another name of the line")
        return str(experiment.experiment_id)


class Models:
    """The LoggedModels of checkpoints on one server: external models, found again by the tag `argosy.checkpoint`."""

    def __init__(self, server: Server, runs: Runs) -> None:
        self._server = server
        self._runs = runs
        self._ids: dict[tuple[str, str, str], str] = {}  # by line, checkpoint and store

    def register(self, owner: Owner, record: Record, out: Path) -> str:
        """The model of a `model` record that the step with the run of `owner` made; its tags are set."""
        tags = {
            "stage": record["stage"], "step": record["step"], "tokens": record["tokens"],
            "path": self._server.place(out / record["path"]),
            "pipeline_run": self._runs.parent(owner) if owner.pipeline else "",
            **_made_from(out), **record["values"]}  # fmt: skip
        name = f"{owner.line}-{record['stage']}-{record['name']}"
        store = self._server.store_of(out)
        config = dict(flat(read_record(out / NODE).get("config", {})))
        params = {metric_name(key): str(value) for key, value in config.items() if value not in (None, "", {})}
        key = owner.line, record["checkpoint"], store
        return self._find_or_create(key, name, tags, self._runs.of(owner), params)

    def evaluated(self, owner: Owner, record: Record) -> str:
        """The model that results belong to.

        One that no step has registered here, since it comes from elsewhere or its step's spool is still to be sent,
        is made from the checkpoint's own argosy.json; registering it later completes its tags."""
        key = owner.line, record["checkpoint"], self._server.store_of(Path(record["path"]))
        if key not in self._ids:
            found = self._server.models_of(*key)
            if not found:
                return self._from_its_files(key, record)
            self._ids[key] = str(found[0].model_id)
        return self._ids[key]

    def _from_its_files(self, key: tuple[str, str, str], record: Record) -> str:
        path = Path(record["path"])
        about: dict[str, Any] = read_record(path / "argosy.json")
        stage = str(about.get("stage", ""))
        tags = {"stage": stage, "step": about.get("step", ""), "tokens": record["tokens"],
                "path": self._server.place(path)}
        name = "-".join(part for part in (key[0], stage, path.name) if part)
        return self._find_or_create(key, name, tags, None)

    def _find_or_create(self, key: tuple[str, str, str], name: str, tags: dict[str, object], run: str | None,
                        params: Mapping[str, str] = _NONE) -> str:
        line, checkpoint, store = key
        tags = {**tags, CHECKPOINT: checkpoint, STORE: store}
        text = {k: str(v)[:LONGEST_TAG] for k, v in tags.items() if v not in ("", None)}
        experiment, client = self._runs.experiment(line), self._server.client
        shared: Shared[LoggedModel] = Shared(
            find=lambda: self._server.models_of(*key),
            create=lambda: client.create_logged_model(
                experiment, NOT_IN_MODEL.sub("_", name), run, text | {IS_EXTERNAL: "true"},
                model_type=text.get("stage")),
            remove=lambda model: client.delete_logged_model(model.model_id),
            settle=lambda model: client.set_logged_model_tags(model.model_id, {SETTLED: "true"}),
            id_of=lambda model: str(model.model_id),
            tags_of=lambda model: model.tags)  # fmt: skip
        with self._server.creating():
            model = shared.find_or_create(alone=not self._server.others_create)
            if text.items() - model.tags.items():
                client.set_logged_model_tags(model.model_id, text)
            if missing := {name: value for name, value in params.items() if name not in model.params}:
                client.log_model_params(model.model_id, missing)
            if model.status.name == "PENDING":  # new, or a shipper was killed while it made it
                self._finish(model)
        self._ids[key] = str(model.model_id)
        return self._ids[key]

    def _finish(self, model: "LoggedModel") -> None:
        """Make it READY as mlflow.create_external_model does, which cannot complete a model that is half made."""
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
