"""Shipping beside a run: the process that sends what the steps log to MLflow, pipeline runs by their names."""

import contextlib
import getpass
import hashlib
import os
import shlex
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType

from argosy.core.config.schema import Config
from argosy.core.store.goodput import WHO
from argosy.core.store.provenance import DIGITS, flat
from argosy.core.store.step_files import TRACKING
from argosy.core.tracking.mlflow.server import tracking_uri
from argosy.core.tracking.ship import locked, unsent
from argosy.core.tracking.spool import PIPELINES, SPOOL, spools
from argosy.core.tracking.tracker import Ledger, Tracker
from workflows.local.process import ROOT
from workflows.local.view import RunObserver, RunResult
from workflows.plan import Plan
from workflows.stored.last_run import record_pipeline

COMMAND = ("-m", "argosy.core.tracking", "ship")
WORKFLOW = "argo.workflow"  # param of a pipeline run
_LOCK = ".pipelines.lock"  # of a store
LONGEST_WAIT_S = 60.0  # for the last metrics, after the run; what is left then is sent in the background


class Sender(RunObserver):
    """Sends from `start` until `close`; as an observer, prints its messages.

    Args:
        store: the store's directory.
        nodes: directories of the steps whose logs are sent; empty: all of the store.
        after_s: start at a tick so much later, since MLflow's client takes seconds to import. What a shorter pod logged
            is sent by a later one, and at the latest by the workflow's exit handler.

    Raises InputError: MLFLOW_TRACKING_URI is none that MLflow takes."""

    def __init__(self, store: Path, nodes: Sequence[str | Path] = (), after_s: float = 0.0) -> None:
        self._uri = tracking_uri(store)
        self._store, self._nodes = store, [Path(node) for node in nodes]
        self._what = ["--node", *map(str, nodes)] if nodes else ["--store", str(store)]
        self._begin = time.monotonic() + after_s
        self._process: subprocess.Popen[bytes] | None = None
        self._said = 0  # bytes of its messages that were printed
        self._messages = tempfile.TemporaryFile()  # noqa: SIM115 - open as long as this is

    def start(self) -> None:
        if self._process is None and time.monotonic() >= self._begin:
            self._process = subprocess.Popen(  # in a session of its own: Ctrl-C is for the steps
                [sys.executable, *COMMAND, *self._what, "--until-eof"], cwd=ROOT, env=_environment(self._uri),
                stdin=subprocess.PIPE, stdout=self._messages, stderr=self._messages, start_new_session=True)

    def on_tick(self) -> None:
        self.start()
        if text := os.pread(self._messages.fileno(), 1 << 16, self._said):  # it writes at the file's own offset
            self._said += len(text)
            print(text.decode(errors="replace"), end="", file=sys.stderr, flush=True)

    def close(self) -> None:
        """Let it send the rest, wait for a while, and say what is left."""
        if self._process is None:
            print("tracking: this pod was short, so a later pod or the workflow's end sends its metrics to MLflow")
            return
        assert self._process.stdin
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.close()
        code = _ended(self._process, 1.0)
        if code is None:
            print(f"tracking: metrics are still being sent to MLflow; this waits {LONGEST_WAIT_S:.0f} s at most",
                  file=sys.stderr)
            code = _ended(self._process, LONGEST_WAIT_S)
        self.on_tick()
        if code == 0:
            return
        own = [node / TRACKING / SPOOL for node in self._nodes]
        count, steps = unsent(own or spools(self._store), self._uri)
        if not count:
            return
        how = "and are being sent in the background" if code is None else f"(the sender's exit code is {code})"
        later = shlex.join([Path(sys.executable).name, *COMMAND, *self._what, "--once"])
        print(f"tracking: {count:,} records of {steps} spools are not sent to MLflow yet {how}; they are kept in each "
              f"step's {TRACKING}/{SPOOL}. The next run of this store sends them, and so does: {later}",
              file=sys.stderr)


def _ended(process: subprocess.Popen[bytes], seconds: float) -> int | None:
    """Return its exit code; None while it runs."""
    try:
        return process.wait(seconds)
    except subprocess.TimeoutExpired:
        return None


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

    def start(self, params: Mapping[str, object], *, todo: int = 1) -> None:
        """Log that the pipeline starts, or goes on.

        Args:
            params: what to know of the plan: config, first and last stage, number of nodes.
            todo: nodes that are to run. Where there is none and the run is finished, nothing is logged."""
        if not todo and self.tracker.last_status == "FINISHED":
            return
        self.tracker.header(**self._header)
        self.tracker.params(params)
        self.tracker.status("RUNNING", str(params.get(WORKFLOW, "")))

    def finish(self, status: str) -> None:
        """Log the final status: FINISHED, FAILED or KILLED."""
        if self.tracker.last_status != status:
            self.tracker.status(status)
        self.tracker.close()


class Shipping(RunObserver):
    """A context around a run, and an observer of it that prints the sender's messages.

    MLflow that is down or slow delays the end by a minute at most, and loses nothing.

    Args:
        line: name of the model line.
        config: of the lifecycle; its fields become the parent run's params."""

    def __init__(self, planned: Plan, line: str, config: Config) -> None:
        self._plan, self._line, self._config = planned, line, config
        self._status = "KILLED"
        self._sender = Sender(Path(planned.store))
        self._name = pipeline_of(Path(planned.store), plan_digest(planned), todo=len(planned.to_run))
        os.environ |= pipeline_environment(self._name, line, person())

    def __enter__(self) -> "Shipping":
        self._pipeline = start_pipeline(self._plan, self._name, self._line, self._config)
        self._sender.start()
        return self

    def on_tick(self) -> None:
        self._sender.on_tick()

    def on_end(self, result: RunResult) -> None:
        self._status = "KILLED" if result.signal else "FAILED" if result.exit_code else "FINISHED"

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 trace: TracebackType | None) -> None:
        # An error of the runner itself is no success, even if no node failed.
        self._pipeline.finish("FAILED" if kind and self._status == "FINISHED" else self._status)
        self._sender.close()


def ship(store: str) -> bool:
    """Send all that steps logged in `store`, and wait; return whether MLflow took it."""
    command = [sys.executable, *COMMAND, "--store", store, "--once"]
    return subprocess.run(command, cwd=ROOT, env=_environment(tracking_uri(Path(store))), check=False).returncode == 0


def _environment(uri: str) -> dict[str, str]:
    """The environment of a sender; the address in it is absolute, as the process runs in another folder."""
    return {**os.environ, "MLFLOW_TRACKING_URI": uri}


def start_pipeline(planned: Plan, pipeline: str, line: str, config: Config, *, todo: int | None = None,
                   **params: str) -> PipelineTracker:
    """Note the config of a pipeline run, and log that it starts.

    Args:
        pipeline: name of the pipeline run.
        todo: nodes that are to run, where those of `planned` are not all.
        params: further ones of the parent run, beside the config's."""
    store = Path(planned.store)
    record_pipeline(store, pipeline, config)
    tracker = PipelineTracker(store, pipeline, line)
    fields = flat(config.model_dump(mode="json"))
    given: dict[str, object] = {key: value for key, value in fields if value not in (None, "", {})}
    tracker.start(given | params, todo=len(planned.to_run) if todo is None else todo)
    return tracker


def pipeline_environment(pipeline: str, line: str, person: str, workflow: str = "", namespace: str = ""
                         ) -> dict[str, str]:
    """The environment that tells steps their pipeline run, model line, and whom they are for."""
    return {"ARGOSY_PIPELINE": pipeline, "ARGOSY_LINE": line, WHO["person"]: person,
            WHO["workflow"]: workflow or pipeline, WHO["namespace"]: namespace}


def person() -> str:
    """Return who runs this: ARGOSY_PERSON, else the user of this process; "" where that has no name."""
    try:
        return os.environ.get(WHO["person"]) or getpass.getuser()
    except (KeyError, OSError):  # by version of Python
        return ""


def plan_digest(planned: Plan) -> str:
    """The digest of a plan's nodes: a run that goes on has the same, so it is the same pipeline run."""
    text = "\n".join(sorted(node.digest for node in planned.nodes))
    return hashlib.sha256(text.encode()).hexdigest()[:DIGITS]
