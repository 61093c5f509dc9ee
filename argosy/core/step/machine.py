"""Tells what this process may use of the machine: cores, memory, GPUs, packages; affinity and cgroup limits count."""

import importlib.util
import math
import os
import resource
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path
from typing import Any

from argosy.core.errors import InputError

GPUS, NPUS = "CUDA_VISIBLE_DEVICES", "ASCEND_RT_VISIBLE_DEVICES"
GIVEN_GPUS = "ARGOSY_GPUS"  # those of the step, where its process sees fewer
_INSTRUCTIONS = {
    "bfloat16": {"amx_bf16", "bf16"}, "float16": {"avx512_fp16", "amx_fp16", "asimdhp"}
}  # flags of /proc/cpuinfo, on x86 and ARM; with avx512_bf16 alone, torch takes 1.8 times as long as for float32
COMPILER, NVCC, VLLM = "a C compiler", "CUDA's compiler nvcc", "vLLM beside Argosy's own packages"
# Fields of steps, patterns of their values, what these need that not every machine or image has, what does without.
_NEEDS: tuple[tuple[str, str, tuple[str, ...], str], ...] = (
    ("optimizer", "adamw_8bit", ("torchao", COMPILER), "set optimizer=adafactor, which needs less memory still"),
    ("fp8", "true", ("torchao",), "set fp8=false"),
    ("compile", "true", (COMPILER,), "set compile=false"),
    ("lora.kind", "qlora", ("bitsandbytes",), "set lora.kind=lora"),
    ("tensorboard", "true", ("tensorboard",), "set tensorboard=false (MLflow has the same curves)"),
    ("engine.nvme_path", "?*", ("libaio", COMPILER, NVCC), "leave it out, for the machine's memory"),
    ("engine.quantized_communication", "true", (NVCC,), "leave it out"),
    ("generation", "vllm", ("vllm",), "name a running server in server.url, or take generation=transformers"),
    ("backend", "vllm", (VLLM,), "set backend=transformers"),
    ("formats", "gguf", ("gguf",), "leave it out"),
    ("model", "*.gguf", ("gguf",), "name a directory that transformers loads"))
_ANSWER_S, _CAP_IPC_LOCK = 30.0, 14
_ASK = """import ctypes, os, sys, uuid
cuda, raw, context = ctypes.CDLL("libcuda.so.1"), (ctypes.c_char * 16)(), ctypes.c_void_p()
failed = cuda.cuInit(0) or cuda.cuDeviceGetUuid(raw, 0) or cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0)
given = os.environ["CUDA_VISIBLE_DEVICES"]
print(f"GPU-{uuid.UUID(bytes=raw.raw)}" if given.isdigit() else given)
sys.exit(failed != 0)"""  # without torch, to be quick


def needs(config: Mapping[str, Any]) -> Iterator[tuple[str, str, str]]:
    """Yield what a step's config, as a mapping, needs that not every machine or image has (NVCC on GPUs alone): the
    field with its value, what it needs, what to do without."""
    for field, pattern, things, otherwise in _NEEDS:
        value: Any = config
        for name in field.split("."):
            value = value.get(name) if isinstance(value, Mapping) else None
        for each in value if isinstance(value, list | tuple) else (value,):
            text = str(each).lower() if isinstance(each, bool) else each
            given = isinstance(text, str) and fnmatchcase(text.lower(), pattern)
            if given and not (field == "generation" and config["server"]["url"]):
                yield from ((f"{field}={text}", thing, otherwise) for thing in things)


def missing(config: Mapping[str, Any], package: str) -> str:
    """Say which field needs a package that is not installed, and how it is; "" where it is, or no field does."""
    need = next(((field, otherwise) for field, thing, otherwise in needs(config) if thing == package), None)
    if need is None or importlib.util.find_spec(package):
        return ""
    return (f"{need[0]} needs the package {package}, which is not installed: `pip install {package}`, on a cluster the "
            f"image train instead of its slim one; or {need[1]}")


def usable_cores() -> int:
    """Count the cores that this process may use."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    quota, _, period = _cgroup("cpu.max").partition(" ")
    return max(1, min(cores, int(quota) // int(period))) if quota.isdigit() and period.isdigit() else cores


def usable_memory_gb() -> float:
    """Return the memory that this process may use, in GB (10^9 bytes)."""
    total = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    limit = _cgroup("memory.max")
    return min(total, int(limit)) / 1e9 if limit.isdigit() else total / 1e9


def free_memory() -> int:
    """Return the bytes still free on the machine and in this process's cgroup, whose files' pages count as free."""
    meminfo = Path("/proc/meminfo")
    lines = meminfo.read_text().splitlines() if meminfo.is_file() else []
    free = next((int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable:")), 0)
    limit, used = _cgroup("memory.max"), _cgroup("memory.current")
    if not (limit.isdigit() and used.isdigit()):
        return free
    pages = dict(line.split() for line in _cgroup("memory.stat").splitlines())
    return min(free, int(limit) - int(used) + int(pages.get("inactive_file", 0)))


def lockable_bytes() -> float:
    """Return the bytes of memory that this process may lock, after asking for as many as it may ask for."""
    most, status = resource.getrlimit(resource.RLIMIT_MEMLOCK)[1], Path("/proc/self/status")
    resource.setrlimit(resource.RLIMIT_MEMLOCK, (most, most))
    lines = status.read_text().splitlines() if status.is_file() else []
    rights = next((int(line.split()[1], 16) for line in lines if line.startswith("CapEff:")), 0)
    users = Path("/proc/self/uid_map")  # a right in a namespace of some users is none to the kernel
    rights = rights if not users.is_file() or users.read_text().split()[-1] == str(2**32 - 1) else 0
    return math.inf if most == resource.RLIM_INFINITY or rights >> _CAP_IPC_LOCK & 1 else most


def memory_kills() -> int:
    """Count the processes of this one's cgroup that the kernel killed for want of memory."""
    events = _cgroup("memory.events") or _cgroup("memory/memory.oom_control")  # of version 2, or 1
    return int(dict(line.split() for line in events.splitlines()).get("oom_kill", 0))


def _cgroup(name: str) -> str:
    """Read a value of this process's cgroup (version 2), "" where there is none."""
    try:
        group = Path("/proc/self/cgroup").read_text().strip().rpartition("::")[2]
        own = Path(f"/sys/fs/cgroup{group}", name)
        return (own if own.exists() else Path("/sys/fs/cgroup", name)).read_text().strip()
    except OSError:
        return ""


def usable_gpus() -> tuple[str, ...]:
    """List the GPUs that this process may use, as CUDA_VISIBLE_DEVICES names them, which HIP reads too, or CANN's
    variable Ascend's; without torch, to be quick."""
    visible = os.environ.get(GPUS, os.environ.get(NPUS))
    if visible is not None:
        return tuple(part.strip() for part in visible.split(",") if part.strip() not in ("", "-1"))
    return tuple(map(str, range(_files("nvidia") or amd_gpus() or _files("davinci"))))


def _files(name: str) -> int:
    return sum(1 for _ in Path("/dev").glob(f"{name}[0-9]*"))


def shown(gpus: Sequence[str]) -> dict[str, str]:
    """Return the variables of a process that sees these GPUs alone."""
    return dict.fromkeys((GPUS, NPUS), ",".join(gpus))


def device_kind() -> str:
    """Name this process's devices as torch does: cuda, AMD's too, npu where torch_npu sees Ascend's, else cpu."""
    import torch

    return next((kind for kind in ("cuda", "npu") if hasattr(torch, kind) and getattr(torch, kind).is_available()),
                "cpu")


def amd_gpus(root: Path = Path("/")) -> int:
    """Count AMD's GPUs, DCUs too, whose device files are here: a container sees the whole machine's topology."""
    found = 0
    for properties in root.glob("sys/class/kfd/kfd/topology/nodes/*/properties"):
        try:
            values = dict(line.split(maxsplit=1) for line in properties.read_text().splitlines() if " " in line)
        except OSError:  # of a GPU that is not this container's
            continue
        minor = int(values.get("drm_render_minor", 0))  # 0: a CPU
        found += minor > 0 and (root / f"dev/dri/renderD{minor}").exists()
    return found if (root / "dev/kfd").exists() else 0


def answering_gpus(gpus: Sequence[str]) -> list[str]:
    """Ask each GPU, in a process of its own, for the name that it keeps when another is lost; "" where none answers,
    such as one that fell off the bus. Raises InputError: they are not NVIDIA's."""
    if gpus and (amd_gpus() or _files("davinci")) and not _files("nvidia"):
        raise InputError("min_processes asks NVIDIA's driver which GPUs are lost, and these are of others: leave it "
                         "out")
    asked = [subprocess.Popen([sys.executable, "-c", _ASK], env={**os.environ, GPUS: gpu}, text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) for gpu in gpus]
    deadline = time.monotonic() + _ANSWER_S
    while any(each.poll() is None for each in asked) and time.monotonic() < deadline:
        time.sleep(0.05)
    names = [each.communicate()[0].strip() if each.poll() == 0 else "" for each in asked]
    for each in asked:
        each.kill()  # nobody waits for it, as a driver that hangs may keep it
    return names


def has_gpu(given: int | None) -> bool:
    """Tell whether a step that is given so many GPUs (None: those of this machine) has one."""
    return bool(usable_gpus()) if given is None else given > 0


def shown_gpus() -> tuple[str, ...]:
    """List the GPUs that this step was given, also where its lone process shows its libraries the first of them."""
    return tuple(filter(None, os.environ.get(GIVEN_GPUS, "").split(","))) or usable_gpus()


def multiplies(dtype: str) -> bool:
    """Tell whether the CPU has instructions for matrices of `dtype`. Without, torch takes two to five times as long as
    for float32. A machine that does not list its instructions counts as one without."""
    return dtype == "float32" or not _INSTRUCTIONS[dtype].isdisjoint(_cpu_flags())


def fast_products(*, gpu: bool) -> str:
    """Name the precision of matrix products that dtype=auto is where weights are float32: bfloat16, or float32 on a
    CPU without instructions for it."""
    return "bfloat16" if gpu or multiplies("bfloat16") else "float32"


@cache
def _cpu_flags() -> frozenset[str]:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return frozenset()
    return frozenset(next((line for line in lines if line.startswith(("flags", "Features"))), "").split())


def free_port() -> int:
    """Return a port of this machine that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
