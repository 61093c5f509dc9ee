"""The last words of a run about metrics that MLflow is slow to take, or does not take."""

import io
import subprocess
from itertools import chain, repeat
from pathlib import Path
from unittest.mock import Mock

import pytest

from argosy.core.errors import InputError
from argosy.core.tracking.tracker import Tracker
from workflows.local.shipping import Sender

STILL, LEFT = "still being sent to MLflow; this waits 60 s at most", "2 records of 1 spools are not sent to MLflow yet "


@pytest.mark.parametrize(("waits", "code", "said"), [
    (0, 0, []), (1, 0, [STILL]), (2, 0, [STILL, LEFT + "and are being sent in the background"]),
    (1, 1, [STILL, LEFT + "(the sender's exit code is 1)"]),
])
def test_each_thing_is_said_once(waits: int, code: int, said: list[str], tmp_path: Path,
                                 monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    store = tmp_path / "my store"
    tracker = Tracker(store / "noop-0123456789ab/tracking")
    for step in (1, 2):
        tracker.metrics({"a": 1}, step)
    process = Mock(stdin=io.BytesIO())  # it ends with `code` when it was waited for often enough
    process.wait.side_effect = chain([subprocess.TimeoutExpired("ship", 1)] * waits, repeat(code))
    monkeypatch.setattr(subprocess, "Popen", lambda *_, **__: process)
    sender = Sender(store)
    sender.start()
    sender.close()
    assert process.stdin.closed
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == len(said)
    assert all(text in line for text, line in zip(said, lines, strict=True))
    if len(lines) == 2:
        assert lines[1].endswith(f" -m argosy.core.tracking ship --store '{store}' --once")


def test_a_short_pod_leaves_its_metrics_to_later_ones(tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
                                                      capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(subprocess, "Popen", Mock(side_effect=AssertionError))
    sender = Sender(tmp_path, after_s=60.0)
    sender.on_tick()
    sender.close()
    assert "this pod was short" in capsys.readouterr().out


@pytest.mark.parametrize("uri", ["file:///tmp/mlruns", "mlruns"])
def test_a_folder_is_no_tracking_server(uri: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MLFLOW_TRACKING_URI", uri)
    with pytest.raises(InputError, match=f"MLFLOW_TRACKING_URI is '{uri}', a folder, .*sqlite:"):
        Sender(tmp_path)
