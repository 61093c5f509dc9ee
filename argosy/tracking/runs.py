"""Experiments and runs: found again by their tags, so that a retry or another pipeline run uses the same ones."""

from __future__ import annotations

from typing import TYPE_CHECKING

from argosy.tracking.batches import Owner
from argosy.tracking.names import quoted
from argosy.tracking.server import Server
from argosy.tracking.settle import SETTLED, Settling, best
from argosy.tracking.shipper import Unavailable

if TYPE_CHECKING:
    from mlflow.entities import Run

NODE, PIPELINE, CURVES = "argosy.node", "argosy.pipeline", "argosy.curves"
KIND = {"mlflow.experimentKind": "custom_model_development"}  # MLflow's pages for models, not those for agents

MOST = 100  # runs that stand for the same, at worst


class Runs:
    """The ids of experiments and runs on one server; asked once, then remembered."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._experiments: dict[str, str] = {}
        self._ids: dict[tuple[str, str, str], str] = {}
        self.created: set[str] = set()  # by this process: nothing can be in them that it did not send

    def forget(self) -> None:
        """Ask again: somebody deleted a run."""
        self._experiments.clear()
        self._ids.clear()

    def experiment(self, line: str) -> str:
        """The id of the experiment of a model line."""
        if line not in self._experiments:
            with self._server.creating():
                self._experiments[line] = self._find_or_create_experiment(line)
        return self._experiments[line]

    def of(self, owner: Owner) -> str:
        """The run of a spool's owner, below its first pipeline run."""
        if not owner.node:
            return self.parent(owner)
        tags = {"mlflow.parentRunId": self.parent(owner)} if owner.pipeline else {}
        tags |= {f"argosy.{key}": value for key in ("step", "part") if (value := getattr(owner, key))}
        return self._run(owner.line, NODE, owner.digest, owner.name, tags, owner.time)

    def parent(self, owner: Owner) -> str:
        """The run of the pipeline run that first started this node."""
        return self._run(owner.line, PIPELINE, owner.pipeline, f"{owner.line} {owner.pipeline}", {}, owner.time)

    def curves(self, owner: Owner, branch: str) -> str:
        """The run that shows a model line's results over training."""
        name = f"{owner.line} curves ({branch})" if branch else f"{owner.line} curves"
        known = (owner.line, CURVES, branch or "main") in self._ids
        run = self._run(owner.line, CURVES, branch or "main", name, {}, owner.time)
        if not known:
            self._server.client.update_run(run, status="FINISHED")  # nothing runs in it: it collects results
        return run

    def find(self, line: str, tag: str, value: str) -> Run | None:
        """The oldest run that has the tag."""
        return best(self._search(line, tag, value), _is_settled)

    def _search(self, line: str, tag: str, value: str) -> list[Run]:
        return list(self._server.client.search_runs(
            [self.experiment(line)], f"tags.`{tag}` = {quoted(value)}", order_by=["attributes.start_time ASC"],
            max_results=MOST if self._server.others_create else 1,
        ))  # fmt: skip

    def _run(self, line: str, tag: str, value: str, name: str, tags: dict[str, str], time_ms: int) -> str:
        key = (line, tag, value)
        if key not in self._ids:
            experiment = self.experiment(line)
            with self._server.creating():
                found = self.find(line, tag, value)
                run = found or self._server.client.create_run(
                    experiment, start_time=time_ms or None, tags={tag: value, **tags}, run_name=name
                )
                if self._server.others_create and tag != NODE:  # one pod at a time works on a node
                    made, run = run, self._settling(line, tag, value).settle(run, found is None)
                    found = found or (run if run.info.run_id != made.info.run_id else None)
                if found is None:
                    self.created.add(run.info.run_id)
            self._ids[key] = run.info.run_id
        return self._ids[key]

    def _settling(self, line: str, tag: str, value: str) -> Settling[Run]:
        client = self._server.client
        return Settling(
            search=lambda: self._search(line, tag, value),
            key=lambda run: str(run.info.run_id),
            is_marked=_is_settled,
            mark=lambda run: client.set_tag(run.info.run_id, SETTLED, "yes"),
            remove=lambda run: client.delete_run(run.info.run_id),
        )

    def _find_or_create_experiment(self, line: str) -> str:
        client = self._server.client
        experiment = client.get_experiment_by_name(line)
        if experiment is None:
            return str(client.create_experiment(line, artifact_location=self._server.artifact_location, tags=KIND))
        if experiment.lifecycle_stage != "active":
            raise Unavailable(f"experiment {line!r} is deleted there; restore it or choose another name of the line")
        return str(experiment.experiment_id)


def _is_settled(run: Run) -> bool:
    return SETTLED in run.data.tags
