"""Pipeline runs: their names, and what a runner logs of one."""

import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path

from argosy.tracking.ship import locked
from argosy.tracking.spool import PIPELINES, SPOOL
from argosy.tracking.tracker import Ledger, Tracker

WORKFLOW = "argo.workflow"  # param of a pipeline run
_LOCK = ".pipelines.lock"  # of a store


def pipeline_of(store: Path, digest: str, workflow: str = "", *, todo: int = 1) -> str:
    """Name the pipeline run of a plan: the one that goes on, which is RUNNING from here on, or a new one.

    One that somebody else is running is left alone: each of two has its own parent run and its own end. Names of two
    stores differ, since both may send to one server. `digest`: of the plan. `workflow`: of Argo, which may start it
    more than once. `todo`: as of `PipelineTracker.start`."""
    with locked(store / _LOCK, wait=True):
        spools = (store / PIPELINES).glob(f"{digest}*/tracking/{SPOOL}")
        for spool in sorted(spools, key=lambda each: each.stat().st_mtime, reverse=True):
            ledger = Ledger(spool)
            if ledger.status != "RUNNING" or (workflow and ledger.workflow == workflow) or (
                    ledger.holder and ledger.holder.is_dead()):
                if todo or ledger.status != "FINISHED":  # so that one that starts this moment leaves it alone
                    tracker = Tracker(spool.parent)
                    tracker.status("RUNNING", workflow)
                    tracker.close()
                return spool.parent.parent.name
    return f"{digest}-{uuid.uuid4().hex[:6]}"


class PipelineTracker:
    """The logger of a pipeline run: the runner's own spool below `<store>/.pipelines/<pipeline>/`.

    Args:
        store: the store's directory.
        pipeline: name of the pipeline run.
        line: name of the model line, which is the experiment's."""

    def __init__(self, store: Path, pipeline: str, line: str) -> None:
        self.tracker = Tracker(store / PIPELINES / pipeline / "tracking")
        self._header = {"node": "", "pipeline": pipeline, "line": line}

    def start(self, params: Mapping[str, object], *, done: Sequence[str] = (), todo: int = 1) -> None:
        """Log that the pipeline starts, or goes on.

        Args:
            params: what to know of the plan: config, first and last stage, number of nodes.
            done: directories below the store of the nodes that are done already.
            todo: nodes that are to run. Where there is none and the run is finished, nothing is logged."""
        if not todo and self.tracker.last_status == "FINISHED":
            return
        self.tracker.header(**self._header)
        self.tracker.params(params)
        self.tracker.reused(done)
        self.tracker.status("RUNNING", str(params.get(WORKFLOW, "")))

    def finish(self, status: str) -> None:
        """Log the final status: FINISHED, FAILED or KILLED."""
        if self.tracker.last_status != status:
            self.tracker.status(status)
        self.tracker.close()
