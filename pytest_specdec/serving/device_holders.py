"""Who holds the memory of a device, for the message of a server that found too little of it."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

from pytest_specdec.serving.gpu import open_nvml, process_name

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

_MIB = 1024**2
_MOST = 6
"""Processes listed per device."""


def device_holders(indices: Sequence[int], ours: Mapping[str, Collection[int]], *, nvml: Any = None) -> tuple[str, ...]:
    """A line for each device: ``device 0: 61234 of 81559 MiB in use; pid 123 (python) 3200 MiB, pid 7 (our baseline server) ...``.

    Args:
        indices: NVML's indices; with none, nothing is read.
        ours: Process ids of our own servers, by what the message should call them.
        nvml: The ``pynvml`` module; default: the installed one.
    """
    if not indices:
        return ()
    with open_nvml(nvml) as library:
        if library is None:
            return ()
        lines = (_line(library, index, ours) for index in indices)
        return tuple(line for line in lines if line)


def _line(library: Any, index: int, ours: Mapping[str, Collection[int]]) -> str:
    try:
        handle = library.nvmlDeviceGetHandleByIndex(index)
        memory = library.nvmlDeviceGetMemoryInfo(handle)
    except library.NVMLError:
        return ""
    running: Sequence[Any] = ()
    with contextlib.suppress(library.NVMLError, AttributeError):
        running = library.nvmlDeviceGetComputeRunningProcesses(handle)
    held = sorted(running, key=lambda process: -(process.usedGpuMemory or 0))
    names = ", ".join(_holder(process, ours) for process in held[:_MOST])
    further = f" and {len(held) - _MOST} more" if len(held) > _MOST else ""
    usage = f"device {index}: {memory.used // _MIB} of {memory.total // _MIB} MiB in use"
    return f"{usage}; {names}{further}" if names else usage


def _holder(process: Any, ours: Mapping[str, Collection[int]]) -> str:
    name = (
        next((name for name, pids in ours.items() if process.pid in pids), None)
        or process_name(process.pid)
        or "not visible from here"
    )
    used = f" {process.usedGpuMemory // _MIB} MiB" if process.usedGpuMemory else ""
    return f"pid {process.pid} ({name}){used}"
