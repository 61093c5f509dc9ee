"""The process of a step: threads, determinism, signals, its parent, memory and output, and events for its runner."""

import json
import os
import platform
import random
import resource
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any

from argosy.core.errors import ArgosyError, InputError, Stopped
from argosy.core.lazy import np, torch
from argosy.core.step.machine import GIVEN_GPUS, device_kind, shown, usable_gpus
from argosy.core.store.files import explain
from argosy.core.store.lease import seconds_from

THREADS = "ARGOSY_THREADS"
DIE_WITH_PARENT = "ARGOSY_DIE_WITH_PARENT"
_LIBRARIES = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "RAYON_NUM_THREADS")
_NUMERIC = ("numpy", "torch", "transformers", "tokenizers", "deepspeed")
_PR_SET_PDEATHSIG = 1

GRACE = "ARGOSY_GRACE_SECONDS"  # between SIGTERM and SIGKILL of a run; a part of it is a step's

_cause: Stopped | None = None  # why the next signal unwinds the step, where that is not the signal itself
_asked: Stopped | None = None  # why a step is to end that ends by itself
_ends_itself = False


def thread_environment(cores: int) -> dict[str, str]:
    """Return the environment that holds every numeric library to `cores` threads: sums depend on how they are split.

    OpenMP's waiting threads spin a short while and then sleep: spinning on, as is the default, a step falls to a
    fiftieth of its speed as soon as any other program wants one of the cores; sleeping at once costs it half. glibc
    keeps the memory of large tensors rather than have the kernel clear it anew each time: half the system's time."""
    return dict.fromkeys((THREADS, *_LIBRARIES), str(cores)) | {
        "GOMP_SPINCOUNT": "10000", "MALLOC_MMAP_THRESHOLD_": str(2**30), "MALLOC_TRIM_THRESHOLD_": str(2**32)}


def computed_with() -> dict[str, str]:
    """Name the device, and the versions of the numeric libraries that are loaded: equal bytes need equal ones."""
    found = {name: str(getattr(sys.modules[name], "__version__", "")) for name in _NUMERIC if name in sys.modules}
    device = platform.machine()
    if (torch := sys.modules.get("torch")) and (kind := device_kind()) != "cpu":
        used = torch.get_device_module(kind)
        device = used.get_device_name() if used.is_initialized() else device
    return {"device": device, "python": platform.python_version(), **found}


def limit_threads() -> None:
    """Apply ARGOSY_THREADS, if set, before a library that reads these variables is imported. Raises InputError: it is
    no number of threads."""
    if threads := os.environ.get(THREADS):
        if not threads.isdecimal() or int(threads) < 1:
            raise InputError(f"{THREADS}={threads} is not allowed; it is a number of threads, 1 or more")
        os.environ.update(thread_environment(int(threads)))


def die_with_parent(parent: int = 0) -> None:
    """Have the kernel kill this process as soon as `parent`, else ARGOSY_DIE_WITH_PARENT=<pid>, is gone (Linux)."""
    parent = parent or int(os.environ.pop(DIE_WITH_PARENT, "") or 0)  # not for grandchildren: theirs is this process
    if not parent or not sys.platform.startswith("linux"):
        return
    import ctypes

    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if parent != 1 and os.getppid() != parent:  # it died before the line above
        os.kill(os.getpid(), signal.SIGKILL)


def stop_on_signals() -> None:
    """Make SIGTERM and SIGINT raise Stopped in the main thread; a second SIGINT kills."""
    signal.signal(signal.SIGTERM, _stop)
    signal.signal(signal.SIGINT, _stop)


def when_resumed(check: Callable[[], None]) -> None:
    """Call `check` first of all when this process goes on after a suspension, such as by Ctrl-Z."""
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGCONT, lambda *_: check())


def interrupt(cause: Stopped) -> None:
    """Raise `cause` in the main thread, from any thread."""
    global _cause
    _cause = cause
    os.kill(os.getpid(), signal.SIGTERM)


def grace(share: float = 1.0) -> float:
    """Return a share of the seconds between SIGTERM and SIGKILL (ARGOSY_GRACE_SECONDS, 10)."""
    return share * seconds_from(GRACE, 10)


@contextmanager
def ends_by_itself() -> Iterator[Callable[[], Stopped | None]]:
    """Have SIGTERM wait for work that ends by itself soon after, such as an optimizer step, most of the grace; yields
    what tells why it is to end (None: go on)."""
    global _ends_itself
    _ends_itself = True
    try:
        yield lambda: _asked
    finally:
        _ends_itself = False
        if _asked:
            signal.setitimer(signal.ITIMER_REAL, 0)


def _stop(number: int, frame: FrameType | None) -> None:
    global _asked
    stopped = _asked or Stopped(f"stopped by {signal.Signals(number).name}", 128 + number)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # unwinding is not disturbed again, but by SIGKILL
    if _ends_itself and number == signal.SIGTERM and not _cause:
        _asked = stopped
        signal.signal(signal.SIGALRM, _stop)
        signal.setitimer(signal.ITIMER_REAL, grace(0.6))
        return
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    raise _cause or stopped


def reset_peak_rss() -> None:
    """Start counting the peak anew where the kernel can (parts that share a process)."""
    with suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")


def peak_rss_mb() -> float:
    """Return the peak of resident memory of this process, or of its largest child, in MiB."""
    return round(max(_own_peak_kb(), resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss) / 1024, 1)


def cpu_seconds() -> float:
    """Return the time of cores that this process has used, and those of its children that have ended."""
    return sum(os.times()[:4])


def memory_mb() -> dict[str, float]:
    """Return this process's resident memory in MiB: `resident` is now (Linux alone), `peak` its highest."""
    now = _status_kb("VmRSS")
    return ({} if now is None else {"resident": now / 1024}) | {"peak": _own_peak_kb() / 1024}


def _own_peak_kb() -> int:
    peak = _status_kb("VmHWM")
    if peak is None:
        scale = 1024 if sys.platform == "darwin" else 1
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // scale
    return peak


def _status_kb(field: str) -> int | None:
    try:
        return int(Path("/proc/self/status").read_text().partition(f"{field}:")[2].split()[0])
    except (OSError, IndexError, ValueError):
        return None


def timestamp() -> str:
    """Return the local time, to the second, for logs."""
    return time.strftime("%Y-%m-%d %H:%M:%S")


def make_deterministic(seed: int, threads: int = 1) -> None:
    """Seed every generator, forbid operations whose result varies, and fix the number of threads.

    `threads` decides how sums are split, and with it their last bits. So it comes from the step's config, which is
    what a result is made from, and not from the cores that the process was given (ARGOSY_THREADS): those differ
    between a laptop and a cluster. Call it before torch is imported."""
    os.environ.update(thread_environment(threads))
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    random.seed(seed)
    np.random.seed(seed % 2**32)
    torch.manual_seed(seed)
    torch.use_deterministic_algorithms(True)
    # Filling fresh memory only changes what is read by mistake, and costs 3 % of a step.
    torch.utils.deterministic.fill_uninitialized_memory = False  # type: ignore[attr-defined]
    torch.set_num_threads(threads)


def show_one_gpu() -> None:
    """Hide all GPUs but the first from this process: libraries would spread one process over all of them."""
    if len(gpus := usable_gpus()) > 1:
        os.environ |= {GIVEN_GPUS: ",".join(gpus), **shown(gpus[:1])}


EVENTS = "ARGOSY_EVENTS_FD"  # a pipe to the runner: a JSON line when an item starts and when it ends


@dataclass(frozen=True)
class Outcome:
    """The end of an item. code: exit code, or None where another process holds it and nobody wanted to wait."""

    code: int | None
    message: str
    ran: bool = False


def failure(error: Exception, out: Path) -> dict[str, Any]:
    """Make the record of an error: `exit_code`, `kind`, `message`, `time`."""
    known = error if isinstance(error, ArgosyError) else explain(error, out)
    return {"exit_code": known.exit_code if known else 1, "kind": type(error).__name__, "time": time.time(),
            "message": str(known) if known else f"{type(error).__name__}: {error}", **getattr(error, "about", {})}


class Events:
    """A pipe to the runner, if there is one, which learns when an item starts and how it ends."""

    def __init__(self) -> None:
        number = os.environ.pop(EVENTS, "")
        self._file = int(number) if number else None
        if self._file is not None:
            os.set_inheritable(self._file, False)

    @property
    def has_runner(self) -> bool:
        """Tell whether a runner listens."""
        return self._file is not None

    def __enter__(self) -> "Events":
        return self

    def __exit__(self, *_: object) -> None:
        if self._file is not None:
            os.close(self._file)

    def run(self, out: Path, work: Callable[[], Outcome]) -> Outcome:
        """Do `work`, the item of `out`; an error that is for people becomes its outcome."""
        self._send({"event": "start", "out": str(out)})
        try:
            outcome = work()
        except ArgosyError as error:
            outcome = Outcome(error.exit_code, str(error))
        self._send({"event": "end", "out": str(out), "code": outcome.code, "message": outcome.message,
                    "ran": outcome.ran})
        return outcome

    def _send(self, event: dict[str, Any]) -> None:
        if self._file is None:
            return
        with suppress(OSError):  # the runner may be gone
            os.write(self._file, (json.dumps(event) + "\n").encode())


@contextmanager
def output_to(path: Path) -> Iterator[None]:
    """Send stdout and stderr, those of C libraries and child processes too, to the end of `path`."""
    sys.stdout.flush()
    sys.stderr.flush()
    saved = os.dup(1), os.dup(2)
    log = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    try:
        os.dup2(log, 1)
        os.dup2(log, 2)
        yield
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        for number, copy in zip((1, 2), saved, strict=True):
            os.dup2(copy, number)
            os.close(copy)
        os.close(log)


@contextmanager
def reader_may_leave() -> Iterator[None]:
    """Exit with 1 and without a traceback where stdout is a pipe that nobody reads any more.

    Output still in stdout's buffer at the end counts too: the interpreter's own flush at exit would complain."""
    try:
        try:
            yield
        finally:
            sys.stdout.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise SystemExit(1) from None
