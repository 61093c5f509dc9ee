"""What a step's process takes from its surroundings: threads, signals, its parent, its peak of memory."""

from __future__ import annotations

import os
import platform
import resource
import signal
import sys
import time
from pathlib import Path
from types import FrameType

from argosy.errors import Stopped

THREADS = "ARGOSY_THREADS"
DIE_WITH_PARENT = "ARGOSY_DIE_WITH_PARENT"
_LIBRARIES = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "RAYON_NUM_THREADS")
_NUMERIC = ("numpy", "torch", "transformers", "tokenizers", "trl", "deepspeed")
_PR_SET_PDEATHSIG = 1

_cause: Stopped | None = None  # why the next signal unwinds the step, where that is not the signal itself


def thread_environment(cores: int) -> dict[str, str]:
    """Environment that holds every numeric library to `cores` threads: sums depend on how they are split.

    OpenMP's waiting threads spin a short while and then sleep: spinning on, as is the default, a step falls to a
    fiftieth of its speed as soon as any other program wants one of the cores; sleeping at once costs it half.
    glibc keeps the memory of large tensors rather than have the kernel clear it anew for each: half the system's time.
    """
    return dict.fromkeys((THREADS, *_LIBRARIES), str(cores)) | {
        "GOMP_SPINCOUNT": "10000",
        "MALLOC_MMAP_THRESHOLD_": str(2**30),
        "MALLOC_TRIM_THRESHOLD_": str(2**32),
    }


def computed_with() -> dict[str, str]:
    """The device, and the versions of the numeric libraries that are loaded: equal bytes need equal ones."""
    found = {name: str(getattr(sys.modules[name], "__version__", "")) for name in _NUMERIC if name in sys.modules}
    device = platform.machine()
    if (torch := sys.modules.get("torch")) and torch.cuda.is_initialized():
        device = torch.cuda.get_device_name()
    return {"device": device, "python": platform.python_version(), **found}


def limit_threads() -> None:
    """Apply ARGOSY_THREADS, if set, before a library that reads these variables is imported."""
    if threads := os.environ.get(THREADS):
        os.environ.update(thread_environment(int(threads)))


def die_with_parent() -> None:
    """With ARGOSY_DIE_WITH_PARENT=<pid>, the kernel kills this process as soon as that parent is gone (Linux)."""
    parent = os.environ.pop(DIE_WITH_PARENT, "")  # not for grandchildren: their parent is this process
    if not parent or not sys.platform.startswith("linux"):
        return
    import ctypes

    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if parent != "1" and os.getppid() != int(parent):  # it died before the line above
        os.kill(os.getpid(), signal.SIGKILL)


def stop_on_signals() -> None:
    """SIGTERM and SIGINT raise Stopped in the main thread; a second SIGINT kills."""
    signal.signal(signal.SIGTERM, _stop)
    signal.signal(signal.SIGINT, _stop)


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
    """Peak of resident memory of this process, or of its largest child, in MiB."""
    children = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
    return round(max(_own_peak_kb(), children) / 1024, 1)


def _own_peak_kb() -> int:
    try:
        status = Path("/proc/self/status").read_text()
        return int(status.partition("VmHWM:")[2].split()[0])
    except (OSError, IndexError, ValueError):
        scale = 1024 if sys.platform == "darwin" else 1
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // scale


def timestamp() -> str:
    """Local time, to the second, as written into logs."""
    return time.strftime("%Y-%m-%d %H:%M:%S")
