"""A look at one machine before a job: GPUs, network adapters, shared memory, limits, the speed of its storage.

Nothing is changed. What a tool would say that is not installed is left out."""

import os
import re
import resource
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

GPU = ("index", "ecc.errors.uncorrected.volatile.total", "clocks_event_reasons.hw_thermal_slowdown",
       "clocks_event_reasons.hw_power_brake_slowdown", "remapped_rows.failure", "temperature.gpu")
SHM_GB = 1.0  # below which data loaders and NCCL run out; containers have 0.064
FILES = 4096
STORAGE = 64 << 20  # bytes that are written and read
SLOW_STORAGE = 50.0  # MB/s
XID = re.compile(r"NVRM: Xid \(([^)]*)\): (\d+)")


@dataclass(frozen=True)
class Finding:
    """A finding: `ok`, `warn` (works, but may be slow or end early), `FAIL` (do not start a job here)."""

    state: Literal["ok", "warn", "FAIL"]
    name: str
    what: str
    fix: str = ""


Tool = Callable[..., str]


def tool(*command: str) -> str:
    """Return what a program prints; "" where it is not installed or fails."""
    if not shutil.which(command[0]):
        return ""
    try:
        return subprocess.run(command, capture_output=True, text=True, timeout=30, check=False).stdout
    except (OSError, subprocess.TimeoutExpired):
        return ""


def look(storage: Path, ask: Tool = tool) -> Iterator[Finding]:
    """Look at all there is. `storage`: the folder whose speed counts; `ask`: runs a program."""
    yield from gpus(ask)
    yield from adapters(ask)
    yield from limits(bool(ask("ibv_devinfo")))
    yield from storage_speed(storage)


def gpus(ask: Tool) -> Iterator[Finding]:
    """Read ECC errors, rows that could not be remapped, brakes on clocks, and Xid errors in the kernel's log."""
    lines = ask("nvidia-smi", f"--query-gpu={','.join(GPU)}", "--format=csv,noheader,nounits").splitlines()
    for line in lines:
        index, ecc, thermal, power, rows, degrees = (part.strip() for part in line.split(",", len(GPU) - 1))
        wrong = [f"{ecc} uncorrected ECC errors"] if ecc.isdigit() and int(ecc) else []
        wrong += ["rows of memory that cannot be remapped"] if rows in ("1", "Yes") else []
        slow = [why for why, state in (("heat", thermal), ("power", power)) if state == "Active"]
        if wrong:
            yield Finding("FAIL", "gpu", f"GPU {index}: {', '.join(wrong)}", "reset the GPU, or take the node out")
        elif slow:
            yield Finding("warn", "gpu", f"GPU {index}: clocks are lowered for {' and '.join(slow)}, at {degrees} °C",
                          "look at cooling and power")
        else:
            yield Finding("ok", "gpu", f"GPU {index}: no error, {degrees} °C")
    for device, number in sorted(set(XID.findall(ask("dmesg")))) if lines else ():
        yield Finding("warn", "gpu", f"Xid {number} of {device} in the kernel's log since it booted",
                      "docs.nvidia.com/deploy/xid-errors says what it means")


def adapters(ask: Tool) -> Iterator[Finding]:
    """Read the ports of RDMA adapters."""
    device = ""
    for line in ask("ibv_devinfo").splitlines():
        key, _, value = (part.strip() for part in line.partition(":"))
        device = value if key == "hca_id" else device
        if key == "state":
            up = "PORT_ACTIVE" in value
            yield Finding("ok" if up else "FAIL", "rdma", f"{device}: {value}",
                          "" if up else "plug it in, or start its subnet manager; ibstat shows more")
    rates = re.findall(r"^\s*Rate:\s*(\d+)", ask("ibstat"), re.MULTILINE)
    if len(set(rates)) > 1:
        yield Finding("warn", "rdma", f"ports have different rates: {', '.join(rates)} Gb/s", "look at the slow cable")


def limits(rdma: bool) -> Iterator[Finding]:
    """Compare shared memory and limits with what training needs. `rdma`: adapters lock memory."""
    if Path("/dev/shm").is_dir():
        free = shutil.disk_usage("/dev/shm").free / 1e9
        yield Finding("ok" if free >= SHM_GB else "warn", "shm", f"/dev/shm has {free:.2f} GB free",
                      "docker run --shm-size=16g; in a pod an emptyDir of medium Memory at /dev/shm")
    files = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    yield Finding("ok" if files >= FILES else "warn", "limits", f"{files:,} open files are allowed", "ulimit -n 65536")
    locked = resource.getrlimit(resource.RLIMIT_MEMLOCK)[0]
    if rdma and locked != resource.RLIM_INFINITY:
        yield Finding("FAIL", "limits", f"{locked / 1e6:.1f} MB may be locked, and RDMA locks its buffers",
                      "ulimit -l unlimited; in a pod the capability IPC_LOCK")


def storage_speed(folder: Path) -> Iterator[Finding]:
    """Write and read a file of STORAGE bytes in `folder`."""
    block = os.urandom(1 << 20)
    try:
        with tempfile.NamedTemporaryFile(dir=folder) as file:
            start = time.perf_counter()
            for _ in range(STORAGE >> 20):
                file.write(block)
            file.flush()
            os.fsync(file.fileno())
            speed = STORAGE / 1e6 / (time.perf_counter() - start)
    except OSError as error:
        yield Finding("FAIL", "storage", f"{folder} cannot be written: {error.strerror or error}", "name another one")
        return
    yield Finding("ok" if speed >= SLOW_STORAGE else "warn", "storage", f"{folder}: {speed:,.0f} MB/s are written",
                  "put the store on a faster disk, or save less often")
