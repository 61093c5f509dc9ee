"""The process of a step: threads, determinism, signals, its parent, its peak of memory."""

import os
import platform
import resource
import signal
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import FrameType

from argosy.core.errors import InputError, Stopped
from argosy.core.step.machine import GIVEN_GPUS, GPUS, usable_gpus

THREADS = "ARGOSY_THREADS"
DIE_WITH_PARENT = "ARGOSY_DIE_WITH_PARENT"
_LIBRARIES = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "RAYON_NUM_THREADS")
_NUMERIC = ("numpy", "torch", "transformers", "tokenizers", "deepspeed")
_PR_SET_PDEATHSIG = 1

_cause: Stopped | None = None  # why the next signal unwinds the step, where that is not the signal itself


def thread_environment(cores: int) -> dict[str, str]:
    """Return the environment that holds every numeric library to `cores` threads: sums depend on how they are split.

    OpenMP's waiting threads spin a short while and then sleep: spinning on, as is the default, a step falls to a
    fiftieth of its speed as soon as any other program wants one of the cores; sleeping at once costs it half.
    glibc keeps the memory of large tensors rather than have the kernel clear it anew for each: half the system's time.
    """
    return dict.fromkeys((THREADS, *_LIBRARIES), str(cores)) | {
        "GOMP_SPINCOUNT": "10000", "MALLOC_MMAP_THRESHOLD_": str(2**30), "MALLOC_TRIM_THRESHOLD_": str(2**32)
    }


def computed_with() -> dict[str, str]:
    """Name the device, and the versions of the numeric libraries that are loaded: equal bytes need equal ones."""
    found = {name: str(getattr(sys.modules[name], "__version__", "")) for name in _NUMERIC if name in sys.modules}
    device = platform.machine()
    if (torch := sys.modules.get("torch")) and torch.cuda.is_initialized():
        device = torch.cuda.get_device_name()
    return {"device": device, "python": platform.python_version(), **found}


def limit_threads() -> None:
    """Apply ARGOSY_THREADS, if set, before a library that reads these variables is imported.

    Raises InputError: it is no number of threads."""
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


def _stop(number: int, frame: FrameType | None) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # unwinding is not disturbed again, but by SIGKILL
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    raise _cause or Stopped(f"stopped by {signal.Signals(number).name}", 128 + number)


def reset_peak_rss() -> None:
    """Start counting the peak anew where the kernel can (parts that share a process)."""
    try:
        Path("/proc/self/clear_refs").write_text("5")
    except OSError:
        return


def peak_rss_mb() -> float:
    """Return the peak of resident memory of this process, or of its largest child, in MiB."""
    children = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
    return round(max(_own_peak_kb(), children) / 1024, 1)


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
    import random

    import numpy as np
    import torch

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
        os.environ |= {GIVEN_GPUS: ",".join(gpus), GPUS: gpus[0]}
