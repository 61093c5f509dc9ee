"""The run of a pipeline: the runner's own spool below `<store>/.pipelines/<digest>/`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from argosy.tracking.records import PIPELINES
from argosy.tracking.spool import Tracker


class PipelineTracker:
    """Logs a pipeline run. One that is run again is the same run.

    Args:
        store: the store's directory.
        digest: of the plan; what makes two pipeline runs the same.
        line: name of the model line, which is the experiment's.
    """

    def __init__(self, store: Path, digest: str, line: str) -> None:
        self.tracker = Tracker(store / PIPELINES / digest / "tracking")
        self._header = {"node": "", "pipeline": digest, "line": line}

    def start(self, params: Mapping[str, object], *, done: Sequence[str] = (), todo: int = 1) -> None:
        """The pipeline starts, or goes on.

        Args:
            params: what to know of the plan: config, first and last stage, number of nodes.
            done: directories below the store of the nodes that are done already.
            todo: nodes that are to run. Where there is none and the run is finished, nothing is logged.
        """
        if not todo and self.tracker.last_status == "FINISHED":
            return
        self.tracker.header(**self._header)
        self.tracker.params(params)
        self.tracker.reused(done)
        self.tracker.status("RUNNING")

    def finish(self, status: str) -> None:
        """How it ended: FINISHED, FAILED or KILLED."""
        if self.tracker.last_status != status:
            self.tracker.status(status)
        self.tracker.close()
