"""The machine without its GPUs: CPU, usable cores, memory; for reports and for the placement of servers."""

from __future__ import annotations

import os
import platform
from dataclasses import dataclass
from pathlib import Path

_GIB = 1024**3


@dataclass(frozen=True)
class Host:
    """What this process may use of the machine."""

    cpu: str
    cores: int
    """By affinity and by the container's quota, whichever is less."""
    memory_gib: float | None

    def __str__(self) -> str:
        return f"{self.cpu}, {self.cores} core{'' if self.cores == 1 else 's'}"


def read_host(root: Path = Path("/")) -> Host:
    """Read ``/proc`` and the control group.

    Args:
        root: Where ``proc`` and ``sys`` are.
    """
    return Host(_cpu_name(root), _cores(root), _memory_gib(root))


def _read(path: Path) -> str:
    try:
        return path.read_text(errors="replace")
    except OSError:
        return ""


def _cpu_name(root: Path) -> str:
    for line in _read(root / "proc/cpuinfo").splitlines():
        name, _, value = line.partition(":")
        if name.strip() in {"model name", "Model", "cpu model"} and value.strip():
            return " ".join(value.split())
    return platform.machine() or "unknown CPU"


def _cores(root: Path) -> int:
    cores = len(os.sched_getaffinity(0))
    quota, _, period = _read(root / "sys/fs/cgroup/cpu.max").partition(" ")
    if quota.isdigit() and period.strip().isdigit():
        cores = min(cores, max(1, round(int(quota) / int(period))))
    return cores


def _memory_gib(root: Path) -> float | None:
    meminfo = _read(root / "proc/meminfo").splitlines()
    limits = [int(line.split()[1]) * 1024 / _GIB for line in meminfo if line.startswith("MemTotal:")]
    limit = _read(root / "sys/fs/cgroup/memory.max").strip()
    if limit.isdigit():
        limits.append(int(limit) / _GIB)
    return min(limits, default=None)
