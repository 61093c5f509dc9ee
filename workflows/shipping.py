"""What `argosy run` does about MLflow: the parent run, and a process that sends what the steps log."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from types import TracebackType

from argosy.config import Config
from argosy.provenance import DIGITS, flat
from argosy.tracking.pipeline import PipelineTracker
from workflows.local.observer import RunObserver, RunResult
from workflows.local.process import ROOT
from workflows.plan import Plan

COMMAND = ("-m", "argosy.tracking", "ship")
LONGEST_WAIT_S = 60.0  # for the last metrics, after the run; what is left then is sent in the background


class Shipping(RunObserver):
    """A context around a run, and an observer of it that prints what the sender says.

    MLflow that is down or slow delays the end by a minute at most, and loses nothing.

    Args:
        line: name of the model line.
        config: of the lifecycle; its fields become the parent run's params.
    """

    def __init__(self, planned: Plan, line: str, config: Config) -> None:
        self._plan, self._config = planned, config
        self._digest = plan_digest(planned)
        self._pipeline = PipelineTracker(Path(planned.store), self._digest, line)
        self._status = "KILLED"
        self._said = 0  # bytes of its messages that were printed
        self._messages = tempfile.TemporaryFile()  # noqa: SIM115 - open as long as this is
        os.environ |= {"ARGOSY_PIPELINE": self._digest, "ARGOSY_LINE": line}  # steps take them from there

    def __enter__(self) -> Shipping:
        done = [Path(node.dir).name for node in self._plan.nodes if node.state == "done"]
        fields = flat(self._config.model_dump(mode="json"))
        params = {key: value for key, value in fields if value not in (None, "", {})}
        self._pipeline.start(params, done=done, todo=len(self._plan.to_run))
        command = [sys.executable, *COMMAND, "--store", self._plan.store, "--until-eof"]
        self._process = subprocess.Popen(  # in a session of its own: Ctrl-C is for the steps
            command,
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=self._messages,
            stderr=self._messages,
            start_new_session=True,
        )
        return self

    def on_tick(self) -> None:
        """Print what the sender has to say, such as that the server does not answer."""
        if text := os.pread(self._messages.fileno(), 1 << 16, self._said):  # the sender writes at the file's own offset
            self._said += len(text)
            print(text.decode(errors="replace"), end="", file=sys.stderr, flush=True)

    def on_end(self, result: RunResult) -> None:
        """Note how the run ended."""
        self._status = "KILLED" if result.signal else "FAILED" if result.exit_code else "FINISHED"

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # An error of the runner itself is no success, even if no node failed.
        self._pipeline.finish("FAILED" if kind and self._status == "FINISHED" else self._status)
        assert self._process.stdin
        self._process.stdin.close()  # the shipper sends what is left, and ends
        for patience in (1.0, LONGEST_WAIT_S):
            try:
                self._process.wait(patience)
                break
            except subprocess.TimeoutExpired:
                print("tracking: metrics are still being sent to MLflow", file=sys.stderr)
        self.on_tick()


def plan_digest(planned: Plan) -> str:
    """Equal for two plans of equal nodes: a run that goes on is the same pipeline run."""
    text = "\n".join(sorted(node.digest for node in planned.nodes))
    return hashlib.sha256(text.encode()).hexdigest()[:DIGITS]
