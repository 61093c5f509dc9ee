"""Who is to blame of several ranks, and why."""

import faulthandler
import signal
import tempfile
from pathlib import Path

import pytest

from argosy.core.errors import ArgosyError, InputError
from argosy.core.step.ranks import diagnosis
from argosy.core.step.ranks.diagnosis import GroupEnd, RankFailed, RankKilled, Stack, first_failure, hang

LOST, ILLEGAL = "Connection reset by peer", "CUDA error: an illegal memory access"
WAITS = Stack("S", ["all_reduce (torch/distributed/distributed_c10d.py:3252)", "train_step (engines/base.py:119)"])
READS = Stack("S", ["read (model/corpus/windows.py:20)"])


@pytest.mark.parametrize(("stacks", "odd", "words"), [
    ({0: WAITS, 1: Stack("T", WAITS.frames), 2: WAITS}, [1], "rank 1: stopped"),
    ({0: Stack("R", []), 1: Stack("T", [])}, [1], "rank 1: stopped (SIGSTOP, or a debugger); other ranks: no stack"),
    ({0: WAITS, 1: WAITS, 2: READS}, [2],
     "rank 2: in read (model/corpus/windows.py:20); other ranks: waiting in all_reduce"),
    ({0: WAITS, 1: Stack("D", READS.frames)}, [1], "rank 1: waiting for a disk or a network file system in read"),
    ({0: WAITS, 1: WAITS}, [], "all ranks: waiting in all_reduce"),
    ({0: WAITS, 1: WAITS, 2: Stack("S", ["broadcast (torch/distributed/distributed_c10d.py:2900)"])}, [2],
     "rank 2: waiting in broadcast"),
    ({0: WAITS, 1: Stack("S", [WAITS.frames[0], "end (engines/base.py:130)"]), 2: WAITS}, [1],
     "rank 1: waiting in all_reduce (torch/distributed/distributed_c10d.py:3252) of end (engines/base.py:130)"),
    ({0: WAITS, 1: Stack("S", ["barrier (torch/distributed/distributed_c10d.py:5356)"])}, [0, 1],
     "rank 0: waiting in all_reduce (torch/distributed/distributed_c10d.py:3252) of train_step (engines/base.py:119); "
     "rank 1: waiting in barrier"),
    ({1: READS}, [1], "rank 1: in read"),
    ({0: READS, 1: Stack("R", [])}, [1], "rank 1: no stack")])
def test_the_rank_that_others_wait_for_is_named(stacks: dict[int, Stack], odd: list[int], words: str) -> None:
    error = hang({0: "a step is late"}, stacks)
    assert error.about["ranks"] == odd
    assert words in str(error)
    assert error.again


def test_the_stack_of_the_main_thread_is_read() -> None:
    with tempfile.TemporaryFile("w+") as file:
        faulthandler.dump_traceback(file, all_threads=True)
        file.seek(0)
        stack = diagnosis.read_stack(1, file.read())
    assert stack.frames[0].startswith("test_the_stack_of_the_main_thread_is_read (")


def failed(message: str, time: float, kind: str = "RuntimeError", code: int = 1) -> dict[str, object]:
    return {"exit_code": code, "kind": kind, "message": message, "time": time}


@pytest.mark.parametrize(("group", "rank", "again", "kind"), [
    # rank 0 writes at once that it lost rank 1, whose death is noticed later
    (GroupEnd(ends={0: failed(LOST, 10.0)}, exits={0: (1, 12.0), 1: (-9, 13.0)}), 1, True, RankKilled),
    (GroupEnd(ends={0: failed(ILLEGAL, 10.0)}, exits={0: (1, 10.0)}), 0, True, RankFailed),
    (GroupEnd(ends={1: failed("CUDA out of memory", 10.0)}, exits={1: (1, 10.0)}), 1, False, RankFailed),
    (GroupEnd(exits={2: (-11, 10.0)}), 2, True, RankFailed),
    (GroupEnd(exits={2: (3, 10.0)}), 2, False, RankFailed),
    # rank 1 was done and is killed as its interpreter ends, and rank 0, which exports, is ended for it
    (GroupEnd(ends={1: {"exit_code": 0}}, exits={0: (143, 11.0), 1: (-9, 10.0)}), 1, True, RankKilled),
    (GroupEnd(ends={0: failed(ILLEGAL, 11.5), 1: {"exit_code": 0}}, exits={0: (1, 11.0), 1: (-9, 11.0)}), 0, True,
     RankFailed),
    (GroupEnd(frozen={3: "rank 3 gave no sign of life"}, exits={0: (-9, 1.0)}), 3, True, RankFailed)])
def test_the_first_failure_and_whether_it_may_pass(group: GroupEnd, rank: int, again: bool, kind: type,
                                                   tmp_path: Path) -> None:
    error = first_failure(group, tmp_path)
    assert isinstance(error, kind)
    assert isinstance(error, RankFailed)
    assert (error.about["rank"], error.again) == (rank, again)


def test_wrong_input_of_a_rank_stays_wrong_input(tmp_path: Path) -> None:
    error: ArgosyError = first_failure(GroupEnd(ends={0: failed("x is 3", 1.0, "InputError", 2)}), tmp_path)
    assert (type(error), str(error)) == (InputError, "x is 3")


def test_the_end_of_a_log_tells_the_cause_of_a_silent_end(tmp_path: Path) -> None:
    log = tmp_path / "log-rank0.txt"
    log.write_text("2026-01-01 00:00:00 rank 0 of 2, process 1\nCUDA out of memory\n"
                   "2026-01-01 00:01:00 rank 0 of 2, process 2\nNCCL WARN Net: remote closed\n")
    error = first_failure(GroupEnd(exits={0: (-signal.SIGABRT, 1.0)}), tmp_path)
    assert isinstance(error, RankFailed)
    assert (error.about["cause"], error.again) == ("NCCL", True)
    assert "was killed by SIGABRT" in str(error)


@pytest.mark.parametrize(("text", "cause"), [
    ("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 20.00 MiB", "memory of the device"),
    ("torch.distributed.DistBackendError: NCCL error in: ProcessGroupNCCL.cpp:3356", "NCCL"),
    ("[Rank 3] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=40)", "NCCL"),
    ("NVRM: Xid (PCI:0000:3b:00): 79, pid=1234, GPU has fallen off the bus.", "Xid"),
    ("CUDA error: uncorrectable ECC error encountered", "ECC"),
    ("CUDA error: uncorrectable NVLink error detected during the execution", "NVLink"),
    ("RuntimeError: CUDA error: device-side assert triggered", "assertion on the device"),
    ("OSError: [Errno 116] Stale file handle: '/store/tokens.bin'", "file system"),
    ("OSError: [Errno 28] No space left on device", "full disk"),
    ("socket.gaierror: [Errno -3] Temporary failure in name resolution", "DNS"),
    ("ValueError: shapes do not match", None)])  # fmt: skip
def test_causes_by_what_errors_say(text: str, cause: str | None) -> None:
    found = diagnosis.cause_of(text)
    assert (found and found.cause) == cause
