"""What `argosy run` does about MLflow: the parent run, and a process that sends what the steps log."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from types import TracebackType

from argosy.config import Config
from argosy.provenance import DIGITS, flat
from argosy.tracking.pipeline import PipelineTracker
from workflows import pipelines
from workflows.local.observer import RunObserver, RunResult
from workflows.plan import Plan
from workflows.sender import Sender


class Shipping(RunObserver):
    """A context around a run, and an observer of it that prints what the sender says.

    MLflow that is down or slow delays the end by a minute at most, and loses nothing.

    Args:
        line: name of the model line.
        config: of the lifecycle; its fields become the parent run's params.
    """

    def __init__(self, planned: Plan, line: str, config: Config) -> None:
        self._plan, self._config = planned, config
        digest = plan_digest(planned)
        self._pipeline = PipelineTracker(Path(planned.store), digest, line)
        self._status = "KILLED"
        self._sender = Sender(["--store", planned.store])
        os.environ |= pipeline_environment(digest, line)

    def __enter__(self) -> Shipping:
        done = [Path(node.dir).name for node in self._plan.nodes if node.state == "done"]
        pipelines.record(Path(self._plan.store), plan_digest(self._plan), self._config)
        self._pipeline.start(parent_params(self._config), done=done, todo=len(self._plan.to_run))
        self._sender.start()
        return self

    def on_tick(self) -> None:
        """Print what the sender has to say, such as that the server does not answer."""
        self._sender.on_tick()

    def on_end(self, result: RunResult) -> None:
        """Note how the run ended."""
        self._status = "KILLED" if result.signal else "FAILED" if result.exit_code else "FINISHED"

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # An error of the runner itself is no success, even if no node failed.
        self._pipeline.finish("FAILED" if kind and self._status == "FINISHED" else self._status)
        self._sender.close()


def pipeline_environment(digest: str, line: str) -> dict[str, str]:
    """What tells steps which pipeline run and model line they belong to."""
    return {"ARGOSY_PIPELINE": digest, "ARGOSY_LINE": line}


def parent_params(config: Config) -> dict[str, object]:
    """The params of the parent run: every field that is set to something."""
    fields = flat(config.model_dump(mode="json"))
    return {key: value for key, value in fields if value not in (None, "", {})}


def plan_digest(planned: Plan) -> str:
    """Equal for two plans of equal nodes: a run that goes on is the same pipeline run."""
    text = "\n".join(sorted(node.digest for node in planned.nodes))
    return hashlib.sha256(text.encode()).hexdigest()[:DIGITS]
