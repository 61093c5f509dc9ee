"""What the runner says when MLflow is slow to take the last metrics."""

from __future__ import annotations

import io
import subprocess
from typing import Any

import pytest

from workflows.local.shipping import Sender


class Slow:
    """A process that ends when it was waited for often enough."""

    def __init__(self, waits: int) -> None:
        self.stdin, self.waits = io.BytesIO(), waits

    def wait(self, timeout: float) -> int:
        self.waits -= 1
        if self.waits >= 0:
            raise subprocess.TimeoutExpired("ship", timeout)
        return 0


@pytest.mark.parametrize(("waits", "said"), [(0, []), (1, ["still being"]), (2, ["still being", "in the background"])])
def test_each_thing_is_said_once(
    waits: int, said: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    process: Any = Slow(waits)
    monkeypatch.setattr(subprocess, "Popen", lambda *_, **__: process)
    sender = Sender(["--store", "/my store"])
    sender.start()
    sender.close()
    assert process.stdin.closed
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == len(said)
    assert all(text in line for text, line in zip(said, lines, strict=True))
    if waits == 2:
        assert lines[1].endswith(" -m argosy.tracking ship --store '/my store' --once")
