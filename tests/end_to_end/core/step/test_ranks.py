"""A step of two processes: one lease, the first failure by name, and the same bytes whoever is killed."""

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

from argosy.core.store.lease import LEASE
from argosy.core.store.step_files import ERROR, LOG, RUN, rank_log
from tests.processes import ROOT, alive, run_python, until

SIZE = 6000
DATA = ("data.bin", "data-1.bin")


def start(out: Path, *, timeout: float = 60, lease: float = 30, **config: Any) -> subprocess.Popen[str]:
    fields = json.dumps({"processes": 2, "size": SIZE, "restarts": 0, **config})
    environment = {**os.environ, "ARGOSY_RANK_TIMEOUT": str(timeout), "ARGOSY_LEASE_SECONDS": str(lease)}
    return subprocess.Popen([sys.executable, "-m", "steps.noop", "--config", fields, "--out", str(out)], cwd=ROOT,
                            text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment)


def ended(process: subprocess.Popen[str]) -> tuple[int, str]:
    """Exit code, and what it printed for people."""
    printed, errors = process.communicate(timeout=240)
    return process.returncode, printed + errors


def is_whole(out: Path) -> bool:
    """Whether each rank wrote each of its bytes once."""
    return all((out / name).read_bytes() == bytes(i % 251 for i in range(SIZE)) for name in DATA)


def test_two_ranks_work_for_one_step(tmp_path: Path) -> None:
    code, text = ended(start(tmp_path, seconds=0.1))
    assert (code, text) == (0, f"{tmp_path}: done\n")
    assert is_whole(tmp_path)
    assert not (tmp_path / LEASE).exists()
    run = json.loads((tmp_path / RUN).read_text())
    assert run["attempts"] == 1
    logs = [(tmp_path / rank_log(rank)).read_text() for rank in (0, 1)]
    assert [re.findall(r"rank (\d) of 2, process (\d+)", log)[0][0] for log in logs] == ["0", "1"]
    assert str(run["pid"]) not in "".join(logs)
    assert not list(tmp_path.glob(".*"))
    spool = [json.loads(line) for line in (tmp_path / "tracking" / "spool.jsonl").read_text().splitlines()]
    assert [line["value"] for line in spool if line["kind"] == "status"] == ["RUNNING", "FINISHED"]


def test_wrong_input_is_told_in_one_line_and_the_other_ranks_end(tmp_path: Path) -> None:
    code, text = ended(start(tmp_path, seconds=0.1, fail="input", fail_rank=1))
    message = "fail = 'input', allowed: ''; this step was asked to fail"
    assert (code, text) == (2, f"steps.noop: {message} (log: {tmp_path / LOG})\n")
    assert json.loads((tmp_path / ERROR).read_text())["message"] == message
    assert "Traceback" in (tmp_path / rank_log(1)).read_text()
    assert "Traceback" not in (tmp_path / LOG).read_text()


def test_whoever_is_killed_or_frozen_is_named_and_the_next_start_continues(tmp_path: Path) -> None:
    """One step is disturbed four times, and ends in the bytes of one that was left alone."""
    expected = [("rank", signal.SIGKILL, 137, "rank 1 was killed by SIGKILL"),
                ("rank", signal.SIGSTOP, 1, "rank 1 gave no sign of life for 6 s"),
                ("step", signal.SIGTERM, 143, "stopped by SIGTERM"), ("step", signal.SIGKILL, -9, "")]  # fmt: skip
    out, written = tmp_path / "disturbed", 0
    for attempt, (whom, number, code, message) in enumerate(expected, 1):
        with start(out, timeout=6, seconds=120) as process:
            ranks = running(out, attempt, process)
            until(lambda before=written: (out / DATA[0]).exists() and (out / DATA[0]).stat().st_size > before)
            os.kill(ranks[1] if whom == "rank" else process.pid, number)
            found, text = ended(process)
        assert found == code, text
        assert message in text
        until(lambda pids=ranks: not any(map(alive, pids)))
        written = (out / DATA[0]).stat().st_size
        assert 0 < written < SIZE
    assert ended(start(out))[0] == 0
    assert is_whole(out)


def test_a_suspended_step_has_one_writer(tmp_path: Path) -> None:
    """While its ranks work on, the directory stays its own."""
    out = tmp_path / "suspended"
    with start(out, lease=4, seconds=8) as first:
        ranks = running(out, 1, first)
        os.kill(first.pid, signal.SIGSTOP)
        second = start(out, lease=4, seconds=8)
        until(lambda: not any(map(alive, ranks)), 120)
        os.kill(first.pid, signal.SIGCONT)
        codes = [ended(process) for process in (first, second)]
    assert [code for code, _ in codes] == [0, 0]
    assert codes[1][1].endswith(f"{out}: done by another process\n")
    assert json.loads((out / RUN).read_text())["attempts"] == 1
    assert is_whole(out)


def running(out: Path, attempt: int, process: subprocess.Popen[str]) -> list[int]:
    """The processes of the ranks of the step's `attempt`, once all of them have begun."""

    def begun() -> list[int]:
        assert process.poll() is None, ended(process)
        logs = [out / rank_log(rank) for rank in (0, 1)]
        found = [re.findall(r"rank \d of 2, process (\d+)", log.read_text()) for log in logs if log.exists()]
        return [int(pids[-1]) for pids in found if len(pids) == attempt]

    until(lambda: len(begun()) == 2, 240)
    return begun()


def test_torchrun_is_refused_in_words(tmp_path: Path) -> None:
    done = run_python("-m", "steps.noop", "--out", tmp_path / "o", WORLD_SIZE="2", RANK="0", LOCAL_RANK="0")
    assert done.returncode == 2
    assert "WORLD_SIZE is 2: torchrun or the like started this process" in done.stderr
    assert "processes" in done.stderr
    assert not (tmp_path / "o").exists()
