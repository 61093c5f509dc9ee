"""The shipper as a process: servers that are down, hang or come back, and kill -9 at any moment."""

import os
import signal
import socket
import sys
import threading
from pathlib import Path

from argosy.core.tracking.mlflow.server import default_uri
from argosy.core.tracking.tracker import Tracker
from tests.warm import ROOT, Popen

PATIENCE_S = 300  # a loaded machine starts a server in minutes


def shipper(store: Path, *options: str) -> Popen:
    command = [sys.executable, "-m", "argosy.core.tracking", "ship", "--store", str(store), *options]
    return Popen(command, cwd=ROOT, env={**os.environ, "MLFLOW_TRACKING_URI": ""})


def logged(store: Path, steps: range) -> Tracker:
    tracker = Tracker(store / "pretrain-0123456789ab" / "tracking")
    tracker.header(node="pretrain", digest="0123456789ab", pipeline="aaaabbbbcccc", line="demo")
    for step in steps:
        tracker.metrics({f"loss/{i}": step * 0.37 + i for i in range(5)} | {"nan": float("nan")}, step)
    return tracker


def points(uri: str) -> dict[str, list[tuple[int, float]]]:
    from mlflow.tracking import MlflowClient

    client = MlflowClient(tracking_uri=uri)
    experiment = client.get_experiment_by_name("demo").experiment_id
    runs = [run for run in client.search_runs([experiment]) if run.info.run_name == "pretrain"]
    assert len(runs) == 1
    keys = runs[0].data.metrics
    history = {key: client.get_metric_history(runs[0].info.run_id, key) for key in keys}
    return {key: sorted((m.step, m.value) for m in found) for key, found in history.items() if key != "nan"}


def expected(steps: range) -> dict[str, list[tuple[int, float]]]:
    return {f"loss/{i}": [(step, step * 0.37 + i) for step in steps] for i in range(5)}


def test_a_server_that_hangs_is_given_up_and_the_rest_is_kept(tmp_path, monkeypatch):
    monkeypatch.setattr("argosy.core.tracking.mlflow.server.TIMEOUT_S", 1)
    from argosy.core.tracking.__main__ import main

    logged(tmp_path / "store", range(5))
    with socket.create_server(("127.0.0.1", 0)) as listener:  # accepts, and never answers
        uri = f"http://127.0.0.1:{listener.getsockname()[1]}"
        thread = threading.Thread(target=main, daemon=True, args=(
            ["ship", "--store", str(tmp_path / "store"), "--once", "--tracking-uri", uri],))
        monkeypatch.setattr(signal, "signal", lambda *_: None)  # only the main thread may
        thread.start()
        thread.join(PATIENCE_S)
        assert not thread.is_alive()
    assert shipper(tmp_path / "store", "--once").wait(PATIENCE_S) == 0
    assert points(default_uri(tmp_path / "store")) == expected(range(5))
