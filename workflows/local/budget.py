"""How many cores and how much memory a run may use."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from workflows.node import Resources

_MEMORY_SHARE = 0.8  # of the machine: the rest is for the system and the page cache


@dataclass
class Budget:
    """Cores and memory that are free now; a node that asks for more than there is in all runs alone.

    Defaults: all cores and 80 % of the memory that this process may use (affinity and cgroup limits count).
    """

    cores: int = 0
    memory_gb: float = 0.0

    def __post_init__(self) -> None:
        self.cores = self.cores or usable_cores()
        self.memory_gb = self.memory_gb or _MEMORY_SHARE * usable_memory_gb()
        self._all = Resources(self.cores, self.memory_gb)

    def fits(self, need: Resources) -> bool:
        """Whether `need` is free."""
        return self.slots(need) > 0

    def slots(self, need: Resources) -> int:
        """How many processes of `need` could start now."""
        need = self._capped(need)
        return int(min(self.cores // need.cores, (self.memory_gb + 1e-6) // max(need.memory_gb, 1e-3)))

    def take(self, need: Resources) -> None:
        """Reserve `need`."""
        need = self._capped(need)
        self.cores -= need.cores
        self.memory_gb -= need.memory_gb

    def give_back(self, need: Resources) -> None:
        """Free `need` again."""
        need = self._capped(need)
        self.cores += need.cores
        self.memory_gb += need.memory_gb

    def _capped(self, need: Resources) -> Resources:
        return Resources(max(1, min(need.cores, self._all.cores)), min(need.memory_gb, self._all.memory_gb))


def usable_cores() -> int:
    """Cores that this process may use."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    quota, _, period = _cgroup("cpu.max").partition(" ")
    return max(1, min(cores, int(quota) // int(period))) if quota.isdigit() and period.isdigit() else cores


def usable_memory_gb() -> float:
    """Memory that this process may use, in GB (10^9 bytes)."""
    total = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    limit = _cgroup("memory.max")
    return min(total, int(limit)) / 1e9 if limit.isdigit() else total / 1e9


def _cgroup(name: str) -> str:
    """A value of this process's cgroup (version 2), "" where there is none."""
    try:
        group = Path("/proc/self/cgroup").read_text().strip().rpartition("::")[2]
        own = Path(f"/sys/fs/cgroup{group}", name)
        return (own if own.exists() else Path("/sys/fs/cgroup", name)).read_text().strip()
    except OSError:
        return ""
